/**
 * The jobs of alert events and their deliveries: their names, keys and payloads.
 *
 * Adds jobs within the transaction that makes them necessary. Invariant: a destination has at most one job that waits,
 * whatever number of deliveries is due to it, so a dead destination with ten thousand deliveries costs the others
 * nothing; that job is never moved to a later time. Not used: the library's queue names. Each search for a job locks the
 * rows of all queues, so of two concurrent searches one finds nothing and waits for the next: deliveries came 1 to 2 s late.
 */
import { addJob } from '#infra/postgres/jobs.ts'
import type { Query } from '#infra/postgres/pool.ts'

/** Serves what is due to one destination. */
export const DELIVER = 'deliver-webhook'
/** Sends the e-mail of an alert event. */
export const SEND_ALERT_MAIL = 'send-alert-mail'
/** Deletes what is old. */
export const HOUSEKEEPING = 'housekeeping'
/** Looks for deliveries that were left behind. */
export const PICK_UP = 'pick-up-deliveries'

/** Key of a destination's job begins so; its id follows. */
export const DESTINATION_KEY = 'webhook:'
/** Key of a mail's job begins so; the delivery's id follows. */
export const MAIL_KEY = 'email:'

/**
 * After all others: a worker that searches for a job skips all that come before the first of its own kind, and of a burst of
 * alerts ten thousand mails wait.
 */
const MAIL_PRIORITY = 10

/** Kills that one job survives before it fails for good; housekeeping would then find its deliveries. */
const MAX_ATTEMPTS = 1_000

/**
 * Has a destination served at a time, at once when left out, or earlier where that was asked for. With a time it needs a
 * transaction. One transaction must not do so for several destinations: it would hold several jobs that run, while the
 * library ends several at once, in another order.
 */
export const queueDestination = (query: Query, endpointId: string, runAt?: number): Promise<void> =>
  addJob(
    query,
    DELIVER,
    { endpoint_id: endpointId },
    { runAt, key: DESTINATION_KEY + endpointId, maxAttempts: MAX_ATTEMPTS, keepsEarlier: true },
  )

/** Has the e-mail of an event sent. */
export const queueAlertMail = (query: Query, deliveryId: string, runAt?: number): Promise<void> =>
  addJob(
    query,
    SEND_ALERT_MAIL,
    { delivery_id: deliveryId },
    { runAt, key: MAIL_KEY + deliveryId, maxAttempts: MAX_ATTEMPTS, priority: MAIL_PRIORITY },
  )

/** Makes the deliveries of some alert events: `{event_ids}`, at most {@link EVENTS_PER_JOB}. */
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
