/**
 * Kills processes one after the other, every one once before any comes again, at random moments.
 *
 * A round takes all of them in an order of its own. Mostly a process is struck at its work; now and then one that is
 * still starting. Invariant: the same seed plans the same rounds and pauses; every blow is a SIGKILL to a process
 * that ran.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { eventually } from '#test/harness/eventually.ts'
import type { SeededRandom } from '#test/harness/seeded-random.ts'
import { type Kept, READY_LIMIT_MS } from './keep-running.ts'

/** How processes are struck. */
export interface StrikePlan {
  kills: number
  /** Pause before each blow, in milliseconds. */
  pauseMs: readonly [least: number, most: number]
  /** Asked right before each blow: what there is to lose at that moment. */
  load(): Promise<number>
}

/** What processes went through. */
export interface StrikeReport {
  /** Name → blows. */
  kills: ReadonlyMap<string, number>
  /** Blows while there was something to lose. */
  underLoad: number
  /** Blows to a process that was not ready yet. */
  early: number
  seconds: number
}

const EARLY_CHANCE = 0.15
/** Blows between two lines of progress. */
const SAY_EVERY = 20

/** Strikes processes that are kept running; resolves when the last blow has fallen. */
export async function strikeInTurn(
  random: SeededRandom,
  kept: readonly Kept[],
  plan: StrikePlan,
): Promise<StrikeReport> {
  const startedAt = performance.now()
  const kills = new Map(kept.map(({ name }) => [name, 0]))
  let [blows, underLoad, early] = [0, 0, 0]
  let round: Kept[] = []
  while (blows < plan.kills) {
    if (round.length === 0) round = random.shuffle(kept)
    const victim = round.pop() as Kept
    const isEarly = random.chance(EARLY_CHANCE)
    await pause(random.integer(...plan.pauseMs))
    await eventually(
      () => victim.role() !== undefined && (isEarly || victim.isReady()),
      READY_LIMIT_MS,
      `${victim.name} to be at work`,
    )
    if ((await plan.load()) > 0) underLoad += 1
    if (!victim.isReady()) early += 1
    victim.role()?.kill('SIGKILL')
    blows += 1
    kills.set(victim.name, (kills.get(victim.name) ?? 0) + 1)
    if (blows % SAY_EVERY === 0) console.log(`      ${blows} blows, the last to ${victim.name}`)
  }
  return { kills, underLoad, early, seconds: Math.round((performance.now() - startedAt) / 1000) }
}
