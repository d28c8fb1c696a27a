/**
 * Starts a server of the platform again when it has ended by itself: killed, or halted because its disk was full.
 *
 * States of a server: running → ended → (starting → failed → pausing)* → running, or given up. Roles wait for it meanwhile
 * and go on by themselves. One start of a server at a time; pauses grow and are bounded, and a server that does not come
 * back within {@link GIVE_UP_AFTER_MS} is lost for good, which is reported to the caller once.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { identify } from '#infra/stack/processes.ts'
import type { RunningServers } from '#infra/stack/running-servers.ts'
import { MINUTE_MS } from '#schemas/values/instant.ts'

export interface ServerWatchOptions {
  servers: Pick<RunningServers, 'pids' | 'restart'>
  report(line: string): void
  /** Called when a server does not come back. */
  onGivenUp(name: string, error: Error): void
  signal: AbortSignal
  /** How often it checks, and how long the first pause is. */
  everyMs?: number
  giveUpAfterMs?: number
}

const CHECK_EVERY_MS = 1_000
const LONGEST_PAUSE_MS = 15_000
/** As long as roles wait for a server. */
const GIVE_UP_AFTER_MS = 10 * MINUTE_MS

/** Watches servers until the signal or until what it returns is called; that resolves when no start is under way. */
export function watchServers(options: ServerWatchOptions): () => Promise<void> {
  const { servers, report, onGivenUp, everyMs = CHECK_EVERY_MS, giveUpAfterMs = GIVE_UP_AFTER_MS } = options
  const stop = new AbortController()
  const signal = AbortSignal.any([options.signal, stop.signal])
  const starting = new Map<string, Promise<void>>()

  const startAgain = async (name: string): Promise<void> => {
    const endedAt = performance.now()
    report(`${name} has ended; starting it again`)
    for (let pauseMs = everyMs; !signal.aborted; pauseMs = Math.min(LONGEST_PAUSE_MS, 2 * pauseMs)) {
      try {
        await servers.restart(name)
        const seconds = ((performance.now() - endedAt) / 1_000).toFixed(1)
        return report(`${name} answers again after ${seconds} s`)
      } catch (error) {
        if (signal.aborted) return
        if (performance.now() - endedAt > giveUpAfterMs) return onGivenUp(name, error as Error)
        report(`${(error as Error).message}\n${name} is started again in ${pauseMs / 1_000} s`)
        await pause(pauseMs, undefined, { signal }).catch(() => undefined)
      }
    }
  }
  const timer = setInterval(() => {
    for (const [name, pid] of Object.entries(servers.pids)) {
      if (starting.has(name) || identify(pid) !== undefined) continue
      // What was given up stays in the map: it is not started again.
      starting.set(
        name,
        startAgain(name).then(() => void (identify(servers.pids[name] ?? 0) && starting.delete(name))),
      )
    }
  }, everyMs)
  return async () => {
    clearInterval(timer)
    stop.abort()
    await Promise.all(starting.values())
  }
}
