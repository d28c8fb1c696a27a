/**
 * How far the time of an event may lie after the append time of its record.
 *
 * The newer event wins, so one with a time in the future would win over every correct one until that time. It is compared
 * with the append time, never with a wall clock: a second read of the same log decides the same. A record that is copied
 * to another log (`replay --to-topic`, a restore) keeps its append time or has a later one, so an event that was
 * accepted once is never refused later.
 */
import { formatInstant, type Instant, MINUTE_MS } from './instant.ts'

/** How far a provider's clock may be ahead of the log's. An event within it is accepted, and wins over later ones for that long at most. */
export const CLOCK_SLACK_MS = 10 * MINUTE_MS

/** The reason for refusing an event whose time lies further ahead. */
export const FROM_THE_FUTURE = 'from_the_future'

/** Whether a time lies too far after a record's append time. */
export const isFromTheFuture = (time: Instant, appendedAt: Instant): boolean => time > appendedAt + CLOCK_SLACK_MS

export function timeFault(time: Instant, appendedAt: Instant): { reason: string; detail: string } | undefined {
  if (!isFromTheFuture(time, appendedAt)) return undefined
  return { reason: FROM_THE_FUTURE, detail: `time ${time}, but the log took it at ${formatInstant(appendedAt)}` }
}
