/**
 * Kills or freezes processes one after the other at random moments, each once in a round.
 *
 * A round takes all of them in an order of its own. A process is killed or frozen at its work, while there is something to lose;
 * from the second round on now and then once more while it is starting again. The same seed plans the same rounds and pauses. A
 * fault is a SIGKILL to a process that ran, or a SIGSTOP for longer than a group session; at the end all are awake.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { eventually } from '#test/harness/eventually.ts'
import type { SeededRandom } from '#test/harness/seeded-random.ts'
import type { SpawnedRole } from '#test/harness/spawn-role.ts'
import { type Kept, READY_LIMIT_MS } from './keep-running.ts'

/** How processes are killed and frozen. */
export interface KillRoundsPlan {
  /** Faults in all, freezes included. */
  kills: number
  /** Ends it before that. */
  signal?: AbortSignal
  /** How likely a fault is a freeze rather than a kill; 0 when left out. */
  freezeChance?: number
  /** The longest time that a process may take to be ready; {@link READY_LIMIT_MS} when left out. */
  readyLimitMs?: number
  /** Pause before each fault, in milliseconds. */
  pauseMs: readonly [least: number, most: number]
  /** Asked right before each fault: whether there is anything to lose at that moment. */
  isUnderLoad(): boolean
}

/** What was done to the processes. */
export interface KillRoundsReport {
  /** Name → faults. */
  kills: ReadonlyMap<string, number>
  /** Faults while there was something to lose. */
  underLoad: number
  /** Faults of a process that was not ready yet. */
  early: number
  /** Faults that were freezes. */
  freezes: number
  seconds: number
}

const AGAIN_CHANCE = 0.15
/** Longer than the 10 s after which a group gives a silent member's partitions away. */
export const FROZEN_MS = [11_500, 15_000] as const
/** How long after its start begins a process gets its second fault, in milliseconds. */
const INTO_START_MS = [0, 2_000] as const
/** Faults between two lines of progress. */
const SAY_EVERY = 20

/** Kills and freezes processes that are kept running; resolves after the last fault. */
export async function killInRounds(
  random: SeededRandom,
  kept: readonly Kept[],
  plan: KillRoundsPlan,
): Promise<KillRoundsReport> {
  const startedAt = performance.now()
  const { signal, freezeChance = 0, readyLimitMs = READY_LIMIT_MS } = plan
  const kills = new Map(kept.map(({ name }) => [name, 0]))
  const frozen = new Map<Kept, Promise<unknown>>()
  let [faults, underLoad, early, freezes] = [0, 0, 0, 0]
  let round: Kept[] = []
  const injectFault = (victim: Kept): void => {
    const { name, role } = victim
    if (plan.isUnderLoad()) underLoad += 1
    if (freezeChance > 0 && random.chance(freezeChance)) {
      const thawed = freeze(role(), random.integer(...FROZEN_MS)).then(() => frozen.delete(victim))
      frozen.set(victim, thawed)
      freezes += 1
    } else role()?.kill('SIGKILL')
    faults += 1
    kills.set(name, (kills.get(name) ?? 0) + 1)
    if (faults % SAY_EVERY === 0) console.log(`      ${faults} faults, the last of ${name}`)
  }
  while (faults < plan.kills && !signal?.aborted) {
    if (round.length === 0) round = random.shuffle(kept)
    const victim = round.pop() as Kept
    await pause(random.integer(...plan.pauseMs), undefined, { signal }).catch(() => undefined)
    await frozen.get(victim)
    await eventually(victim.isReady, `${victim.name} to be at work`, readyLimitMs)
    // After a kill of what brings the load nothing is under way until it has started again.
    await eventually(plan.isUnderLoad, 'something to lose', readyLimitMs)
    if (signal?.aborted) break
    const former = victim.role()
    injectFault(victim)
    if (faults < kept.length || faults >= plan.kills || frozen.has(victim) || !random.chance(AGAIN_CHANCE)) continue
    const isBack = () => victim.role() !== undefined && victim.role() !== former
    await eventually(isBack, `${victim.name} to start again`, readyLimitMs)
    await pause(random.integer(...INTO_START_MS))
    if (!victim.isReady()) early += 1
    injectFault(victim)
  }
  await Promise.all(frozen.values())
  return { kills, underLoad, early, freezes, seconds: Math.round((performance.now() - startedAt) / 1000) }
}

async function freeze(role: SpawnedRole | undefined, ms: number): Promise<void> {
  role?.kill('SIGSTOP')
  await pause(ms)
  role?.kill('SIGCONT')
}
