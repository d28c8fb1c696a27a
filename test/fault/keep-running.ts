/**
 * Keeps one process of some roles running, as a supervisor would: whatever ends it, it is started again.
 *
 * States: running -> ended (by a kill or by itself) -> waiting -> running, until `stop`. Invariant: the pauses before
 * restarts follow from the seed; a process that ended by itself, and not by SIGKILL, is counted and its last line shown, and
 * fails the file unless such ends were announced. A restart that the test asks for is no end by itself.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { eventually } from '#test/harness/eventually.ts'
import type { SeededRandom } from '#test/harness/seeded-random.ts'
import type { SpawnedRole } from '#test/harness/spawn-role.ts'

/** How a process is kept. */
export interface KeepOptions {
  /** What it runs, for the report. */
  name: string
  random: SeededRandom
  start(): Promise<SpawnedRole>
  /** What a process may end by itself for; without it none may. */
  mayEnd?: RegExp
  /** {@link READY_LIMIT_MS} when left out. */
  readyLimitMs?: number
}

/** A process that is kept running. */
export interface Kept {
  readonly name: string
  /** The process of now; undefined between an end and the next start. */
  role(): SpawnedRole | undefined
  /** Whether the process of now has said that it is ready. */
  isReady(): boolean
  /** Processes that ended by themselves, a lost dependency or a lost partition as the reason. */
  endedByThemselves(): number
  /** Processes that a SIGKILL has ended. */
  killed(): number
  /** Stops it and starts it again once `meanwhile` is done; resolves when it is ready. */
  restart(meanwhile?: Promise<unknown>): Promise<void>
  /** Stops it for good; a frozen process is woken. */
  stop(): Promise<void>
}

/** The last word of a process that has lost what it needs; what ends without it has crashed. */
export const SAYS_WHY = /"level":"fatal".*cannot go on; the process ends/

/** The longest time that a process may take to be ready. */
export const READY_LIMIT_MS = 60_000
const RESTART_MS = [0, 2_500] as const

/** Starts a process and keeps it running. */
export function keepRunning({ name, random, start, mayEnd, readyLimitMs = READY_LIMIT_MS }: KeepOptions): Kept {
  const ending = new AbortController()
  let role: SpawnedRole | undefined
  let isReady = false
  let [endedByThemselves, killed] = [0, 0]
  let restarting: { of: SpawnedRole; meanwhile: Promise<unknown> } | undefined
  const keep = async (): Promise<void> => {
    while (!ending.signal.aborted) {
      const started = await start()
      if (mayEnd) started.allowEnd(mayEnd)
      if (ending.signal.aborted) return started.stop()
      role = started
      void isSoonReady(started, readyLimitMs, () => role === started).then(ready => {
        if (role === started) isReady = ready
      })
      const { signal } = await started.ended
      role = undefined
      isReady = false
      if (ending.signal.aborted) return
      if (restarting?.of === started) {
        await restarting.meanwhile
        continue
      }
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
    role: () => role,
    isReady: () => isReady,
    endedByThemselves: () => endedByThemselves,
    killed: () => killed,
    async restart(meanwhile = Promise.resolve()) {
      const before = await eventually(() => role, `${name} to run`, readyLimitMs)
      restarting = { of: before, meanwhile }
      await before.stop()
      await meanwhile
      await eventually(() => role !== before && isReady, `${name} to be ready again`, readyLimitMs)
    },
    async stop() {
      ending.abort()
      await role?.stop()
      await keeping
    },
  }
}

/** Resolves with whether a process says that it is ready before it ends. */
async function isSoonReady(role: SpawnedRole, limitMs: number, isCurrent: () => boolean): Promise<boolean> {
  const answers = async (): Promise<boolean> => {
    if (!isCurrent()) return true
    const answer = await fetch(`${await role.operatorUrl()}/readyz`, { signal: AbortSignal.timeout(5_000) })
    await answer.body?.cancel()
    return answer.ok
  }
  return eventually(answers, `${role.role} to be ready`, limitMs).then(isCurrent, () => false)
}
