/**
 * Randomness that can be repeated: the seed is SEED, else always the same, so that `make test` gives the same answer every time; `make fault`
 * draws one a run. The same seed gives the same sequence on every machine (mulberry32, 32-bit integers only).
 */

export interface SeededRandom {
  readonly seed: number
  /** In [0, 1). */
  next(): number
  /** An integer in [from, to], both included. */
  integer(from: number, to: number): number
  pick<T>(values: readonly T[]): T
  chance(probability: number): boolean
  shuffle<T>(values: readonly T[]): T[]
  /** A source of its own, which the next number seeds: what draws of it beside others draws the same every time. */
  branch(): SeededRandom
}

const FIXED_SEED = 1

/** The seed of this run; throws when SEED is no integer from 0 to 2^32 - 1. */
export function runSeed(env: NodeJS.ProcessEnv = process.env): number {
  const seed = env.SEED ? Number(env.SEED) : FIXED_SEED
  if (!Number.isInteger(seed) || seed < 0 || seed >= 2 ** 32)
    throw new Error(`SEED must be an integer from 0 to 2^32 - 1, not ${env.SEED}`)
  return seed
}

/** Opens a source for a test; prints the seed. */
export function seededRandom(purpose: string, env: NodeJS.ProcessEnv = process.env): SeededRandom {
  const seed = runSeed(env)
  console.log(`      ${purpose}: seed ${seed} (SEED=${seed} repeats it)`)
  return randomOf(seed)
}

/** The source of a seed, silent. */
export function randomOf(seed: number): SeededRandom {
  let state = seed | 0
  const next = () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const integer = (from: number, to: number) => from + Math.floor(next() * (to - from + 1))
  return {
    seed,
    next,
    integer,
    pick: <T>(values: readonly T[]) => values[integer(0, values.length - 1)] as T,
    branch: () => randomOf(integer(0, 2 ** 31)),
    chance: probability => next() < probability,
    shuffle: <T>(values: readonly T[]) => {
      const copy = [...values]
      for (let last = copy.length - 1; last > 0; last--) {
        const other = integer(0, last)
        ;[copy[last], copy[other]] = [copy[other] as T, copy[last] as T]
      }
      return copy
    },
  }
}
