/**
 * Deliveries while they are attempted and kept, and their jobs.
 *
 * Sole writer of webhook_attempts and webhook_health; fan-out.ts and webhooks/commands.ts add and repeat webhook_deliveries.
 * Invariant: an attempt is on record before its request leaves, so none is unknown after a crash; a delivery changes only while
 * it is pending; Postgres' clock alone decides what is due; each pending delivery that is due has a job. An attempt under way
 * holds its destination by a lease, its delivery's next time: no other begins before its end, and when its process dies the
 * delivery is due again after that. The outcome of an attempt whose lease had expired counts if it succeeded, and else is only
 * recorded. A destination has at most one job that waits, whatever number of deliveries is due to it, so a dead destination with ten
 * thousand deliveries costs the others nothing; that job is never moved to a later time. Not used: the library's queue names. Each
 * search for a job locks the rows of all queues, so of two concurrent searches one finds nothing and waits for the next: deliveries came
 * 1 to 2 s late.
 */
import { addJob, withoutJobSoon } from '#infra/postgres/jobs.ts'
import { type Database, inPortions, type Query } from '#infra/postgres/pool.ts'
import type { WebhookPlatform } from '#schemas/api/webhooks.ts'
import { type AttemptOutcome, INTERRUPTED } from './attempt-outcome.ts'

/** Serves what is due to one destination. */
export const DELIVER = 'deliver-webhook'
/** Sends the e-mail of an alert event. */
export const SEND_ALERT_MAIL = 'send-alert-mail'

/** Keys of jobs begin so; the id of the destination, or of the mail's delivery, follows. */
const DESTINATION_KEY = 'webhook:'
const MAIL_KEY = 'email:'

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
export const queueDestination = (query: Query, endpointId: string, runAt?: string): Promise<void> =>
  addJob(
    query,
    DELIVER,
    { endpoint_id: endpointId },
    { runAt, key: DESTINATION_KEY + endpointId, maxAttempts: MAX_ATTEMPTS, keepsEarlier: true },
  )

export const queueAlertMail = (query: Query, deliveryId: string, runAt?: string): Promise<void> =>
  addJob(
    query,
    SEND_ALERT_MAIL,
    { delivery_id: deliveryId },
    { runAt, key: MAIL_KEY + deliveryId, maxAttempts: MAX_ATTEMPTS, priority: MAIL_PRIORITY },
  )

export interface BegunAttempt {
  id: string
  attempt_count: number
  failures: number
  endpoint_url: string
  platform: WebhookPlatform
  event_type: string
  body: string
  is_test: boolean
  /** Of the destination as it is now. */
  sealed_secret: string
}

/** Longer than an attempt takes with all that belongs to it. */
const LEASE_SECONDS = 20

/** Locked until the commit: another job, a pause, a removal and a resumption wait, and so see what is done meanwhile. */
const LOCK = 'SELECT is_active, sealed_secret FROM webhooks WHERE id = $1 FOR NO KEY UPDATE'

/** When the attempt under way to a destination ends at the latest. */
const LEASED_UNTIL = `SELECT d.next_attempt_at FROM webhook_deliveries d
  JOIN webhook_attempts a ON a.delivery_id = d.id AND a.attempt_number = d.attempt_count AND a.status = 'pending'
  WHERE d.endpoint_id = $1 AND d.status = 'pending' AND d.next_attempt_at > now()
    AND d.next_attempt_at < now() + 2 * interval '${LEASE_SECONDS} seconds'`

const BEGIN = `WITH due AS (
    SELECT d.id FROM webhook_deliveries d
    WHERE d.endpoint_id = $1 AND d.status = 'pending' AND d.next_attempt_at <= now() AND NOT EXISTS (${LEASED_UNTIL})
    ORDER BY d.next_attempt_at, d.id LIMIT 1 FOR UPDATE
  ), broken AS (
    UPDATE webhook_attempts a SET status = 'failed', error = '${INTERRUPTED}', completed_at = now()
    FROM due WHERE a.delivery_id = due.id AND a.status = 'pending'
  ), begun AS (
    UPDATE webhook_deliveries d SET attempt_count = attempt_count + 1,
      next_attempt_at = now() + interval '${LEASE_SECONDS} seconds'
    FROM due WHERE d.id = due.id
    RETURNING d.id, d.attempt_count, d.failures, d.endpoint_url, d.platform, d.event_type, d.body, d.is_test
  ), noted AS (
    INSERT INTO webhook_attempts (delivery_id, attempt_number, status, created_at)
    SELECT id, attempt_count, 'pending', now() FROM begun
  )
  SELECT begun.*, $2::text AS sealed_secret FROM begun`

/**
 * Begins an attempt of the delivery that has been due for longest; undefined where none is due, or another attempt is under
 * way. A removed destination's deliveries are cancelled, a paused one's wait without a time.
 */
export function beginAttempt(database: Database, endpointId: string): Promise<BegunAttempt | undefined> {
  return database.transaction(async query => {
    const [destination] = await query<{ is_active: boolean; sealed_secret: string }>(LOCK, [endpointId])
    if (destination?.is_active) return (await query<BegunAttempt>(BEGIN, [endpointId, destination.sealed_secret]))[0]
    await (destination ? query(HOLD, [endpointId]) : cancelDeliveries(query, endpointId))
    return undefined
  })
}

const HOLD = `UPDATE webhook_deliveries SET next_attempt_at = NULL
  WHERE endpoint_id = $1 AND status = 'pending' AND next_attempt_at IS NOT NULL`

const CANCEL = `UPDATE webhook_deliveries
  SET status = 'failed', error = 'Cancelled: the destination was removed.', next_attempt_at = NULL, completed_at = now()
  WHERE endpoint_id = $1 AND status = 'pending'`

export const cancelDeliveries = (query: Query, endpointId: string): Promise<unknown> => query(CANCEL, [endpointId])

/** Deletes all deliveries of an account, mails too, and the health of its destinations. */
export async function removeDeliveries(
  query: Query,
  { accountId, endpointIds }: { accountId: string; endpointIds: readonly string[] },
): Promise<void> {
  await query('DELETE FROM webhook_deliveries WHERE account_id = $1', [accountId])
  await query('DELETE FROM email_deliveries WHERE account_id = $1', [accountId])
  await query('DELETE FROM webhook_health WHERE endpoint_id = ANY ($1::uuid[])', [endpointIds])
}

const CONCLUDE = `WITH attempt AS (
    UPDATE webhook_attempts SET status = $3, http_status = $4, error = $5, response_body_excerpt = $6, completed_at = now()
    WHERE delivery_id = $1 AND attempt_number = $2
  ), delivery AS (
    UPDATE webhook_deliveries SET
      status = $7::text,
      failures = failures + $8,
      last_http_status = coalesce($4, last_http_status),
      error = $5,
      next_attempt_at = CASE WHEN $7::text = 'pending' AND next_attempt_at IS NOT NULL
        THEN now() + $9 * interval '1 millisecond' END,
      completed_at = CASE WHEN $7::text = 'pending' THEN NULL ELSE now() END
    WHERE id = $1 AND status = 'pending' AND (attempt_count = $2 OR $7::text = 'succeeded')
    RETURNING endpoint_id
  )
  INSERT INTO webhook_health (endpoint_id, last_success_at, last_failure_at, last_failure_message)
  SELECT endpoint_id, CASE WHEN $3 = 'succeeded' THEN now() END, CASE WHEN $3 = 'failed' THEN now() END,
    CASE WHEN $3 = 'failed' THEN $5 END
  FROM delivery WHERE NOT $10
  ON CONFLICT (endpoint_id) DO UPDATE SET
    last_success_at = coalesce(excluded.last_success_at, webhook_health.last_success_at),
    last_failure_at = coalesce(excluded.last_failure_at, webhook_health.last_failure_at),
    last_failure_message = coalesce(excluded.last_failure_message, webhook_health.last_failure_message)`

/** Records how an attempt ended and what follows for its delivery and its destination. */
export async function concludeAttempt(
  { rows }: Pick<Database, 'rows'>,
  attempt: BegunAttempt,
  outcome: AttemptOutcome,
  excerpt: string | null,
): Promise<void> {
  const { kind } = outcome
  const isSuccess = kind === 'succeeded'
  const isInterrupted = kind === 'interrupted'
  await rows(CONCLUDE, [
    ...[attempt.id, attempt.attempt_count, isSuccess ? 'succeeded' : 'failed'],
    ...[isInterrupted ? null : outcome.httpStatus, isSuccess ? null : outcome.error, excerpt],
    kind === 'retried' || isInterrupted ? 'pending' : kind,
    isSuccess || isInterrupted ? 0 : 1,
    kind === 'retried' ? outcome.delayMs : 0,
    isInterrupted,
  ])
}

/**
 * What else is due waits for the next attempt of the one that is retried, and comes before it, so that one which fails always
 * holds up no other; ten minutes at most, since it has not failed itself.
 */
const PUT_OFF = `UPDATE webhook_deliveries d
  SET next_attempt_at = least(r.next_attempt_at - interval '1 millisecond', now() + interval '10 minutes')
  FROM webhook_deliveries r
  WHERE r.id = $2 AND d.endpoint_id = $1 AND d.status = 'pending' AND d.next_attempt_at <= now()`

const NEXT = `SELECT coalesce((${LEASED_UNTIL} LIMIT 1), (
    SELECT min(next_attempt_at) FROM webhook_deliveries WHERE endpoint_id = $1 AND status = 'pending'
  )) AS at`

/** Queues a destination for its next due delivery; `retriedId`: the delivery whose attempt has failed and is retried. */
export function leaveDestination(database: Database, endpointId: string, retriedId: string | undefined): Promise<void> {
  return database.transaction(async query => {
    await query(LOCK, [endpointId])
    if (retriedId !== undefined) await query(PUT_OFF, [endpointId, retriedId])
    const [next] = await query<{ at: string | null }>(NEXT, [endpointId])
    if (next?.at) await queueDestination(query, endpointId, next.at)
  })
}

/** Days that events and their deliveries are kept. */
const KEPT_DAYS = 90
const BATCH = 1_000

/** Deletes what is older than {@link KEPT_DAYS}. */
export async function forgetOld({ rows }: Pick<Database, 'rows'>, signal: AbortSignal): Promise<void> {
  for (const table of ['webhook_deliveries', 'email_deliveries', 'alert_events']) {
    const statement = `DELETE FROM ${table} WHERE id IN (SELECT id FROM ${table}
      WHERE created_at < now() - interval '${KEPT_DAYS} days' ORDER BY created_at LIMIT ${BATCH}) RETURNING id`
    await inPortions(rows, statement, [], { most: BATCH, signal })
  }
  await rows('DELETE FROM webhook_health h WHERE NOT EXISTS (SELECT 1 FROM webhooks w WHERE w.id = h.endpoint_id)')
}

const leftOf = (table: string, id: string, key: string): string => `SELECT DISTINCT d.${id} AS id FROM ${table} d
  WHERE d.status = 'pending' AND d.next_attempt_at < now() - interval '1 minute'
    AND ${withoutJobSoon(`'${key}' || d.${id}`)}
  ORDER BY 1 LIMIT ${BATCH}`

/** Adds the jobs of deliveries that are due and have none soon, as after a job that failed often; returns their number. */
export async function pickUpLeft({ rows }: Pick<Database, 'rows'>): Promise<number> {
  const destinations = await rows<{ id: string }>(leftOf('webhook_deliveries', 'endpoint_id', DESTINATION_KEY))
  for (const { id } of destinations) await queueDestination(rows, id)
  const mails = await rows<{ id: string }>(leftOf('email_deliveries', 'id', MAIL_KEY))
  for (const { id } of mails) await queueAlertMail(rows, id)
  return destinations.length + mails.length
}
