/**
 * Makes the deliveries of an alert event: one per active destination of its account, and one e-mail.
 *
 * Reads alert_events, accounts and webhooks; adds rows to webhook_deliveries and email_deliveries and their jobs in one
 * transaction. Invariant: an event has at most one delivery per destination and one e-mail, however often this
 * runs; an account that is disabled, or no longer quant, gets no webhook.
 */
import type { Database, Query } from '#infra/postgres/pool.ts'
import type { UuidSource } from '#infra/runtime/uuid-v7.ts'
import type { AlertTriggeredBody, WebhookPlatform } from '#schemas/api/webhooks.ts'
import { queueAlertMail, queueDestination } from './delivery-jobs.ts'
import { type AlertEvent, alertTriggered, bodyFor } from './event-body.ts'

/** A destination as deliveries quote it. */
export interface DeliveryTarget {
  id: string
  account_id: string
  label: string
  url: string
  platform: WebhookPlatform
}

/** A row of alert_events with what its account receives. */
interface EventForAccount extends AlertEvent {
  gets_mail: boolean
  gets_webhooks: boolean
}

const EVENT = `SELECT e.*, a.disabled_at IS NULL AND a.tier = 'quant' AS gets_webhooks,
    a.disabled_at IS NULL AND a.email_verified_at IS NOT NULL AND a.alert_emails_off_at IS NULL AS gets_mail
  FROM alert_events e JOIN accounts a ON a.id = e.account_id WHERE e.id = $1`

const INSERT_DELIVERIES = `INSERT INTO webhook_deliveries (id, account_id, event_id, event_type, event, is_test, endpoint_id,
    endpoint_label, endpoint_url, platform, body, status, next_attempt_at, created_at)
  SELECT id, $1, $2, $3, $4, $5, endpoint_id, label, url, platform, body, 'pending', now(), now()
  FROM unnest($6::uuid[], $7::uuid[], $8::text[], $9::text[], $10::text[], $11::text[])
    AS d (id, endpoint_id, label, url, platform, body)
  ON CONFLICT (event_id, endpoint_id) DO NOTHING
  RETURNING endpoint_id`

/** Makes what is missing of an event's deliveries; an event that housekeeping has removed has none. */
export function fanOut(database: Database, eventId: string, newId: UuidSource, now: number): Promise<void> {
  return database.transaction(async query => {
    const [event] = await query<EventForAccount>(EVENT, [eventId])
    if (!event) return
    if (event.gets_webhooks) {
      const targets = await query<DeliveryTarget>(
        'SELECT id, account_id, label, url, platform FROM webhooks WHERE account_id = $1 AND is_active ORDER BY id',
        [event.account_id],
      )
      await addDeliveries(query, alertTriggered(event), targets, { isTest: false, newId, now })
    }
    if (event.gets_mail) await addMail(query, event, newId(now))
  })
}

/** Adds the deliveries of an event to destinations of one account, and has those served; tells their ids. */
export async function addDeliveries(
  query: Query,
  event: AlertTriggeredBody,
  targets: readonly DeliveryTarget[],
  options: { isTest: boolean; newId: UuidSource; now: number },
): Promise<string[]> {
  const [first] = targets
  if (!first) return []
  const ids = targets.map(() => options.newId(options.now))
  const added = await query<{ endpoint_id: string }>(INSERT_DELIVERIES, [
    first.account_id,
    event.id,
    event.type,
    JSON.stringify(event),
    options.isTest,
    ids,
    targets.map(({ id }) => id),
    targets.map(({ label }) => label),
    targets.map(({ url }) => url),
    targets.map(({ platform }) => platform),
    targets.map(({ url, platform }) => bodyFor(platform, url, event)),
  ])
  for (const endpointId of added.map(row => row.endpoint_id).sort()) await queueDestination(query, endpointId)
  return ids
}

async function addMail(query: Query, event: AlertEvent, id: string): Promise<void> {
  const added = await query(
    `INSERT INTO email_deliveries (id, account_id, event_id, status, next_attempt_at, created_at)
      VALUES ($1, $2, $3, 'pending', now(), now()) ON CONFLICT (event_id) DO NOTHING RETURNING id`,
    [id, event.account_id, event.id],
  )
  if (added.length > 0) await queueAlertMail(query, id)
}
