/**
 * Decides which lines moved between two commits, from pairs of runs.
 *
 * A pair is one run of each side, one right after the other, so what the machine does for minutes is in both; it gives a
 * ratio: the later side's figure by the earlier one's. A line moved when all pairs agree on the direction, the median ratio is
 * beyond the least movement, and beyond {@link SPREAD_SHARE} of the spread between the pairs. After a few pairs the rule only
 * says whether more are worth their time. By simulation (normal noise, one run in ten slower by up to three times as much): of
 * eight pairs with 3 % of noise in a run the rule finds a movement that is not there once in 4,000 lines, with 10 % once in
 * 450; it finds one of 10 % always with 1 % of noise and 7 times in 8 with 2 %.
 */
import type { Bars } from './bars.ts'
import type { Entry } from './entry.ts'
import { median } from './statistics.ts'

export type RunLine = Pick<Entry, 'name' | 'value' | 'unit' | 'ratio'>

export interface RunPair {
  before: readonly RunLine[]
  after: readonly RunLine[]
}

/** What happened to a line; the figures are ratios to the baseline of the same run where the line has one. */
export interface Movement {
  name: string
  unit: string
  better: 'higher' | 'lower'
  is_ratio: boolean
  before: number
  after: number
  /** Median of the pairs' ratios, after by before. */
  change: number
  spread: { min: number; max: number }
  pairs: { before: number; after: number }[]
  verdict: 'better' | 'worse' | 'unmoved' | 'not comparable'
}

/** So few say which lines may have moved, so many whether they did. */
export const PAIRS = { first: 3, all: 8 }

/** Less is not looked for: of what has a baseline or counts CPU or memory, and of times of the clock alone. */
const LEAST = { steady: 0.05, clock: 0.1 }
const SPREAD_SHARE = 0.5
const CLOCK_UNITS = new Set(['ms', 's'])

/** What became of each line that has a bar; both sides measure it in every pair, or it is not comparable. */
export function movements(pairs: readonly RunPair[], bars: Bars): Movement[] {
  const known = new Map(pairs.flatMap(({ before, after }) => [...before, ...after]).map(line => [line.name, line]))
  return [...known.values()].flatMap(({ name, unit }) => {
    const bar = Object.hasOwn(bars, name) ? bars[name] : undefined
    if (!bar) return []
    const better = 'atLeast' in bar ? 'higher' : 'lower'
    const lines = pairs.map(({ before, after }) => ({ before: lineOf(before, name), after: lineOf(after, name) }))
    const isRatio = lines.every(({ before, after }) => before?.ratio != null && after?.ratio != null)
    const figures = lines.map(({ before, after }) => ({
      before: figureOf(before, isRatio),
      after: figureOf(after, isRatio),
    }))
    return [movementOf({ name, unit, better, is_ratio: isRatio }, figures)]
  })
}

const lineOf = (lines: readonly RunLine[], name: string): RunLine | undefined => lines.find(line => line.name === name)

const figureOf = (line: RunLine | undefined, isRatio: boolean): number =>
  (isRatio ? line?.ratio : line?.value) ?? Number.NaN

function movementOf(line: Pick<Movement, 'name' | 'unit' | 'better' | 'is_ratio'>, pairs: Movement['pairs']): Movement {
  // Two zeros are the same.
  const ratios = pairs.map(({ before, after }) => (before === after ? 1 : after / before))
  const change = median(ratios)
  return {
    ...line,
    before: median(pairs.map(({ before }) => before)),
    after: median(pairs.map(({ after }) => after)),
    change,
    spread: { min: Math.min(...ratios), max: Math.max(...ratios) },
    pairs,
    verdict: verdictOf(line, ratios),
  }
}

function verdictOf(
  { unit, better, is_ratio }: Pick<Movement, 'unit' | 'better' | 'is_ratio'>,
  ratios: readonly number[],
): Movement['verdict'] {
  if (ratios.length === 0 || !ratios.every(ratio => Number.isFinite(ratio) && ratio > 0)) return 'not comparable'
  const logs = ratios.map(Math.log)
  const [least, middle, most] = [Math.min(...logs), median(logs), Math.max(...logs)]
  const floor = Math.log1p(CLOCK_UNITS.has(unit) && !is_ratio ? LEAST.clock : LEAST.steady)
  const agree = least > 0 || most < 0
  if (!agree || Math.abs(middle) <= Math.max(floor, SPREAD_SHARE * (most - least))) return 'unmoved'
  return middle > 0 === (better === 'higher') ? 'better' : 'worse'
}
