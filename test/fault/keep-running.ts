/**
 * Keeps one process of some roles running, as a supervisor would, and kills and freezes such processes. The pauses before restarts follow from
 * the seed; a process that ended by itself, and not by SIGKILL, fails the file unless such ends were announced.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { eventually } from '#test/harness/eventually.ts'
import { isStopped } from '#test/harness/process-figures.ts'
import type { SeededRandom } from '#test/harness/seeded-random.ts'
import type { SpawnedRole } from '#test/harness/spawn-role.ts'

interface KeepOptions {
  name: string
  random: SeededRandom
  start(): Promise<SpawnedRole>
  /** Why a process may end by itself; without it none may. */
  mayEnd?: RegExp
  readyLimitMs?: number
}

export type Kept = ReturnType<typeof keepRunning>

/** The last word of a process that has lost what it needs; what ends without it has crashed. */
export const SAYS_WHY = /"level":"fatal".*cannot go on; the process ends/

const READY_LIMIT_MS = 60_000
const RESTART_MS = [0, 2_500] as const

export function keepRunning({ name, random, start, mayEnd, readyLimitMs = READY_LIMIT_MS }: KeepOptions) {
  const ending = new AbortController()
  let role: SpawnedRole | undefined
  let isReady = false
  const readyTimes: number[] = []
  let [endedByThemselves, killed] = [0, 0]
  const keep = async (): Promise<void> => {
    while (!ending.signal.aborted) {
      const started = await start()
      if (mayEnd) started.allowEnd(mayEnd)
      if (ending.signal.aborted) return started.stop()
      role = started
      const becomeReady = (): void => {
        if (role !== started) return
        isReady = true
        readyTimes.push(Date.now())
      }
      started.ready(readyLimitMs).then(becomeReady, () => undefined)
      const { signal } = await started.ended
      role = undefined
      isReady = false
      if (ending.signal.aborted) return
      if (signal === 'SIGKILL') killed += 1
      else {
        endedByThemselves += 1
        console.log(`      ${name} ended by itself: ${started.lines().at(-1)?.slice(0, 400)}`)
      }
      await pause(random.integer(...RESTART_MS), undefined, { signal: ending.signal }).catch(() => undefined)
    }
  }
  const keeping = keep()
  return {
    name,
    /** The process of now; undefined between an end and the next start. */
    role: () => role,
    isReady: () => isReady,
    /** When it was ready for the first time since a moment, in milliseconds since 1970; infinite until then. */
    readyAfter: (at: number): number => readyTimes.find(time => time >= at) ?? Number.POSITIVE_INFINITY,
    /** Processes that ended by themselves, a lost dependency or a lost partition as the reason. */
    endedByThemselves: () => endedByThemselves,
    killed: () => killed,
    /** For good; a frozen process is woken. */
    async stop(): Promise<void> {
      ending.abort()
      await role?.stop()
      await keeping
    },
  }
}

interface KillPlan {
  /** At least so many where there is `until`; freezes come beside. */
  kills: number
  until?: AbortSignal
  signal?: AbortSignal
  /** One fault in so many is a freeze; none when left out. */
  freezeEach?: number
  readyLimitMs?: number
  /** Pause before each fault, in milliseconds. */
  pauseMs: readonly [least: number, most: number]
  /** Asked right before each fault: records that wait for the processes. Only a fault under load proves something. */
  waiting(): Promise<number>
}

/** A time at which a process or a server was harmed, in milliseconds since 1970. */
export interface Disturbance {
  readonly of: string
  readonly from: number
  readonly to: number
}

export interface KillReport {
  disturbances: readonly Disturbance[]
  kills: number
  freezes: number
  seconds: number
}

const AGAIN_CHANCE = 0.15
/** Longer than the 10 s after which a group gives a silent member's partitions away. */
const FROZEN_MS = [11_500, 15_000] as const
/** How long after its start begins a process gets its second fault, in milliseconds. */
const INTO_START_MS = [0, 2_000] as const

/**
 * Kills processes one after the other at random moments, each once in a round, and freezes some of them before; resolves after the last fault.
 *
 * A round takes all of them in an order of its own. A process is killed or frozen at its work, while records wait; from the second round on
 * it is now and then killed once more while it is starting again. The same seed plans the same rounds and pauses. A fault counts when it is
 * seen to have happened: the process has ended by SIGKILL, or stands still, for longer than a group session. At the end all are awake.
 */
export async function killInRounds(random: SeededRandom, kept: readonly Kept[], plan: KillPlan): Promise<KillReport> {
  const startedAt = performance.now()
  const { until, signal, freezeEach = Number.POSITIVE_INFINITY, readyLimitMs = READY_LIMIT_MS } = plan
  const disturbances: Disturbance[] = []
  const frozen = new Map<Kept, Promise<unknown>>()
  let [kills, freezes] = [0, 0]
  let round: Kept[] = []
  const isOver = (): boolean => signal?.aborted || (kills >= plan.kills && (until?.aborted ?? true))
  const kill = async ({ name, readyAfter }: Kept, role: SpawnedRole): Promise<void> => {
    role.kill('SIGKILL')
    const ending = await role.ended
    const from = Date.now()
    disturbances.push({
      of: name,
      from,
      // Partitions move when the group gives up the process, and again when its successor joins.
      get to() {
        return readyAfter(from)
      },
    })
    if (ending.signal === 'SIGKILL') kills += 1
  }
  const freeze = async (victim: Kept, role: SpawnedRole): Promise<void> => {
    const from = Date.now()
    role.kill('SIGSTOP')
    await eventually(() => isStopped(role.pid), `${victim.name} to stand still`)
    freezes += 1
    const thawed = pause(random.integer(...FROZEN_MS)).then(() => {
      role.kill('SIGCONT')
      disturbances.push({ of: victim.name, from, to: Date.now() })
      frozen.delete(victim)
    })
    frozen.set(victim, thawed)
  }
  const atWork = async (victim: Kept): Promise<SpawnedRole> => {
    await eventually(victim.isReady, `${victim.name} to be at work`, readyLimitMs)
    await eventually(async () => (await plan.waiting()) > 0, `work for ${victim.name}`, readyLimitMs)
    return victim.role() ?? (await atWork(victim))
  }
  while (!isOver()) {
    if (round.length === 0) round = random.shuffle(kept)
    const victim = round.pop() as Kept
    await pause(random.integer(...plan.pauseMs))
    await frozen.get(victim)
    const role = await atWork(victim)
    if ((kills + freezes + 1) % freezeEach === 0) {
      await freeze(victim, role)
      round.unshift(victim)
      continue
    }
    await kill(victim, role)
    if (kills < kept.length || isOver() || !random.chance(AGAIN_CHANCE)) continue
    const successor = await eventually(victim.role, `${victim.name} to start again`, readyLimitMs)
    await pause(random.integer(...INTO_START_MS))
    await kill(victim, successor)
  }
  await Promise.all(frozen.values())
  return { disturbances, kills, freezes, seconds: Math.round((performance.now() - startedAt) / 1000) }
}

/** `book: 3 kills and 1 freezes in 12 s` */
export const describeKills = (what: string, { kills, freezes, seconds }: KillReport): string =>
  `      ${what}: ${kills} kills and ${freezes} freezes in ${seconds} s`
