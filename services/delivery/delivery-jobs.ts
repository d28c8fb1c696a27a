/**
 * The jobs of delivery: their names, keys and queues.
 *
 * Adds jobs within the transaction that makes them necessary. Invariant: a destination has at most one job that waits and
 * one that runs, whatever number of deliveries is due to it, so a dead destination with ten thousand deliveries costs the
 * others nothing; its queue lets one job run at a time. A job that is added for now is never moved to a later time.
 */
import { addJob } from '#infra/postgres/jobs.ts'
import type { Query } from '#infra/postgres/pool.ts'

/** Makes the deliveries of an alert event; added by services/accounts when an alert is disarmed. */
export const FAN_OUT = 'fan-out-alert-event'
/** Serves what is due to one destination. */
export const DELIVER = 'deliver-webhook'
/** The same for destinations that answer slowly, by workers of their own. */
export const DELIVER_SLOWLY = 'deliver-webhook-slowly'
/** Sends the e-mail of an alert event. */
export const SEND_ALERT_MAIL = 'send-alert-mail'
/** Forgets what is old, and looks for what was left behind. */
export const HOUSEKEEPING = 'housekeeping'

/** Key and queue of a destination's jobs begin so; its id follows. */
export const DESTINATION_LINE = 'webhook:'
/** Key of a mail's job begins so; the delivery's id follows. */
export const MAIL_KEY = 'email:'

/** Kills that one job survives before it is given up; housekeeping would then find its deliveries. */
const MAX_ATTEMPTS = 1_000

/** Has a destination served at a time, at once when left out. Keys of several are to be added in ascending order. */
export function queueDestination(
  query: Query,
  endpointId: string,
  options: { runAt?: number; isSlow?: boolean; isFollowUp?: boolean } = {},
): Promise<void> {
  const { runAt, isSlow = false, isFollowUp = false } = options
  const line = DESTINATION_LINE + endpointId
  return addJob(
    query,
    isSlow ? DELIVER_SLOWLY : DELIVER,
    { endpoint_id: endpointId },
    { runAt, key: line, queue: line, maxAttempts: MAX_ATTEMPTS, keepsTime: isFollowUp },
  )
}

/** Has the e-mail of an event sent. */
export const queueAlertMail = (query: Query, deliveryId: string, runAt?: number): Promise<void> =>
  addJob(
    query,
    SEND_ALERT_MAIL,
    { delivery_id: deliveryId },
    { runAt, key: MAIL_KEY + deliveryId, maxAttempts: MAX_ATTEMPTS },
  )
