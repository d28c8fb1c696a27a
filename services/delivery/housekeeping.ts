/**
 * Deletes deliveries after 90 days, and queues pending ones without a job.
 *
 * Deletes from webhook_deliveries (attempts go with them), email_deliveries and webhook_health; adds jobs. Each statement
 * takes a bounded number of rows, so it never blocks others for long. Invariant: each pending delivery that is due has a job. alert_events
 * belong to services/accounts, which removes them.
 */
import type { Database } from '#infra/postgres/pool.ts'
import { DESTINATION_KEY, MAIL_KEY, queueAlertMail, queueDestination } from './delivery-jobs.ts'

/** Days that deliveries are kept (the account issue, "Housekeeping"). */
export const KEPT_DAYS = 90
const BATCH = 1_000
const BATCHES_MOST = 1_000

/** Deletes what is older than the given days; returns the number of rows. */
export async function forgetOld({ rows }: Pick<Database, 'rows'>, signal: AbortSignal): Promise<number> {
  let forgotten = 0
  for (const table of ['webhook_deliveries', 'email_deliveries'] as const) {
    for (let round = 0; round < BATCHES_MOST && !signal.aborted; round++) {
      const gone = await rows(
        `DELETE FROM ${table} WHERE id IN (SELECT id FROM ${table}
          WHERE created_at < now() - $1 * interval '1 day' ORDER BY created_at LIMIT $2) RETURNING id`,
        [KEPT_DAYS, BATCH],
      )
      forgotten += gone.length
      if (gone.length < BATCH) break
    }
  }
  await rows('DELETE FROM webhook_health h WHERE NOT EXISTS (SELECT 1 FROM webhooks w WHERE w.id = h.endpoint_id)')
  return forgotten
}

const LEFT_DESTINATIONS = `SELECT DISTINCT d.endpoint_id AS id FROM webhook_deliveries d
  WHERE d.status = 'pending' AND d.next_attempt_at < now() - interval '1 minute' AND NOT EXISTS (
    SELECT 1 FROM graphile_worker.jobs j WHERE j.key = '${DESTINATION_KEY}' || d.endpoint_id AND j.attempts < j.max_attempts
      AND j.run_at < now() + interval '1 minute')
  ORDER BY 1 LIMIT ${BATCH}`

const LEFT_MAILS = `SELECT d.id FROM email_deliveries d
  WHERE d.status = 'pending' AND d.next_attempt_at < now() - interval '1 minute' AND NOT EXISTS (
    SELECT 1 FROM graphile_worker.jobs j WHERE j.key = '${MAIL_KEY}' || d.id AND j.attempts < j.max_attempts
      AND j.run_at < now() + interval '1 minute')
  ORDER BY 1 LIMIT ${BATCH}`

/** Adds the jobs of deliveries that are due and have none soon, as after a job that failed often; returns their number. */
export async function pickUpLeft(database: Database): Promise<number> {
  const destinations = await database.rows<{ id: string }>(LEFT_DESTINATIONS)
  for (const { id } of destinations) await queueDestination(database.rows, id)
  const mails = await database.rows<{ id: string }>(LEFT_MAILS)
  for (const { id } of mails) await queueAlertMail(database.rows, id)
  return destinations.length + mails.length
}
