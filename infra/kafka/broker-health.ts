/**
 * Reports that brokers do not answer, for how long and what to check; and that they answer again.
 *
 * The client retries without a log line, so a role that waits for brokers would seem idle. States: healthy → unhealthy (a
 * connection was refused or broke, or nothing was answered for a while) → healthy again at the next answer. One log line when it
 * becomes unhealthy, one every half minute, one when it is healthy again.
 */
import type { Log } from '../runtime/log.ts'

const CHECK_EVERY_MS = 1_000
/** Longer than a group may take to rebalance, during which its members are not answered. */
const SILENT_AFTER_MS = 18_000
/** A connection that broke alone, and was made again at once, is not reported. */
const LOST_AFTER_MS = 1_000
const LOG_EVERY_MS = 30_000

export type BrokerHealth = ReturnType<typeof openBrokerHealth>

/** `who` waits: `the group book`; `isWaiting`: an answer is expected now, since a client that asks nothing gets none. */
export function openBrokerHealth(
  { brokers, log }: { brokers: readonly string[]; log: Log },
  who: string,
  isWaiting = () => true,
) {
  let answeredAt = performance.now()
  let lost: { reason: string; at: number } | undefined
  let loggedAt: number | undefined
  const trouble = (): string | undefined => {
    const now = performance.now()
    const isLost = lost !== undefined && now - lost.at > LOST_AFTER_MS
    if (!isLost && now - answeredAt < SILENT_AFTER_MS) return undefined
    const seconds = Math.round((now - answeredAt) / 1_000)
    const why = lost === undefined ? '' : ` (${lost.reason})`
    return `Kafka at ${brokers.join(', ')} has not answered ${who} for ${seconds} s${why}`
  }
  const check = (): void => {
    const now = performance.now()
    if (!isWaiting()) {
      answeredAt = now
      lost = undefined
    }
    const line = trouble()
    if (line === undefined) {
      if (loggedAt !== undefined) log.info({ brokers }, `Kafka answers ${who} again`)
      loggedAt = undefined
    } else if (loggedAt === undefined || now - loggedAt >= LOG_EVERY_MS) {
      loggedAt = now
      log.warn(
        { brokers },
        `${line}; it waits and goes on by itself. Check that a broker runs and that its disk has room`,
      )
    }
  }
  const timer = setInterval(check, CHECK_EVERY_MS).unref()
  return {
    answered(): void {
      answeredAt = performance.now()
      lost = undefined
    },
    lost(reason: string): void {
      lost = { reason, at: lost?.at ?? performance.now() }
    },
    trouble,
    close: (): void => clearInterval(timer),
  }
}
