/**
 * The jobs that make the deliveries of alert events: what services/accounts adds and services/delivery does.
 *
 * Adds them within the transaction that records the events. Payload: `{event_ids}`, at most EVENTS_PER_JOB of them.
 */
import { addJob } from './jobs.ts'
import type { Query } from './pool.ts'

/** Name of the job. */
export const FAN_OUT = 'fan-out-alert-event'

/** With a job for each event, every job that was added scanned all of a burst's jobs once more. */
const EVENTS_PER_JOB = 100

/** Has the deliveries of any number of events made. */
export async function queueFanOut(query: Query, eventIds: readonly string[]): Promise<void> {
  for (let from = 0; from < eventIds.length; from += EVENTS_PER_JOB) {
    const some = eventIds.slice(from, from + EVENTS_PER_JOB)
    await addJob(query, FAN_OUT, { event_ids: some }, { key: some[0] })
  }
}
