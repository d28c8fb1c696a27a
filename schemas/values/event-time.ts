/**
 * How far an event's own time may lie after its append time.
 *
 * An event's time says what is newer, so one from the future would win over every correct one until real time has caught up.
 * It is measured against the append time of its record, which comes with it, never against a wall clock: a second read of the same
 * log decides the same. A record that is appended to another log (`replay --to-topic`, a copy, a restore) has a later append time there, or
 * keeps its own, so what was accepted once is never refused later.
 */
import { formatInstant, type Instant } from './instant.ts'

/** How far a provider's clock may run ahead of the log's. An event within it is accepted, and outdates others for that long at most. */
export const CLOCK_SLACK_MS = 10 * 60_000

/** Why an event is refused whose time lies further ahead. */
export const FROM_THE_FUTURE = 'from_the_future'

/** Whether a time lies further after a record's append time than a clock may run ahead. */
export const isFromTheFuture = (time: Instant, appendedAt: Instant): boolean => time > appendedAt + CLOCK_SLACK_MS

/** Why the time of a record cannot be accepted; undefined when it can. */
export function timeFault(time: Instant, appendedAt: Instant): { reason: string; detail: string } | undefined {
  if (!isFromTheFuture(time, appendedAt)) return undefined
  return { reason: FROM_THE_FUTURE, detail: `time ${time}, but the log took it at ${formatInstant(appendedAt)}` }
}
