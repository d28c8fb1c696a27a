/**
 * Makes the deliveries of alert events: of each one per active destination of its account, and one e-mail.
 *
 * Adds rows to webhook_deliveries and email_deliveries in one transaction with the jobs of mails, and then the jobs of
 * destinations, one by one (why: store.ts). Invariant: an event has at most one delivery per destination and one e-mail, however
 * often this runs; an account that is disabled, or no longer quant, gets no webhook; an event that cannot be fanned out does
 * not block others.
 */
import { addJob } from '#infra/postgres/jobs.ts'
import { type Database, insertRows, type Query } from '#infra/postgres/pool.ts'
import { openUuidSource } from '#infra/runtime/uuid-v7.ts'
import type { AlertTriggeredBody } from '#schemas/api/alert-triggered.ts'
import type { WebhookPlatform } from '#schemas/api/webhooks.ts'
import { readAlertRecipients } from '#services/accounts/reader.ts'
import { type AlertEvent, bodyFor, EVENT_COLUMNS, eventBodyOf } from './event-body.ts'
import { queueAlertMail, queueDestination } from './store.ts'

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

export interface DeliveryTarget {
  id: string
  account_id: string
  label: string
  url: string
  platform: WebhookPlatform
}

const newId = openUuidSource()

const EVENTS = `SELECT ${EVENT_COLUMNS} FROM alert_events WHERE id = ANY ($1::uuid[]) ORDER BY array_position($1::uuid[], id)`

const INSERT_MAIL = `INSERT INTO email_deliveries (id, account_id, event_id, status, next_attempt_at, created_at)
  VALUES ($1, $2, $3, 'pending', now(), now()) ON CONFLICT (event_id) DO NOTHING RETURNING id`

const PENDING_DESTINATIONS = `SELECT DISTINCT endpoint_id FROM webhook_deliveries
  WHERE event_id = ANY ($1::uuid[]) AND status = 'pending'`

/**
 * Makes what is missing of the deliveries of some events; an event that housekeeping has removed has none. Of several that
 * cannot be fanned out together each gets a job of its own.
 */
export async function fanOut(database: Database, eventIds: readonly string[]): Promise<void> {
  try {
    await database.transaction(query => makeDeliveries(query, eventIds))
  } catch (error) {
    if (eventIds.length === 1) throw error
    await database.transaction(async query => {
      for (const eventId of eventIds) await queueFanOut(query, [eventId])
    })
    return
  }
  // Also what an earlier run has made: it may have died before this.
  for (const { endpoint_id } of await database.rows<{ endpoint_id: string }>(PENDING_DESTINATIONS, [eventIds])) {
    await queueDestination(database.rows, endpoint_id)
  }
}

async function makeDeliveries(query: Query, eventIds: readonly string[]): Promise<void> {
  const events = await query<AlertEvent>(EVENTS, [eventIds])
  const accountIds = events.map(event => event.account_id)
  const recipients = await readAlertRecipients(query, accountIds)
  for (const event of events) {
    const { mailAddress = null, getsWebhooks = false } = recipients.get(event.account_id) ?? {}
    if (getsWebhooks) {
      const targets = await query<DeliveryTarget>(
        'SELECT id, account_id, label, url, platform FROM webhooks WHERE account_id = $1 AND is_active ORDER BY id',
        [event.account_id],
      )
      await addDeliveries(query, eventBodyOf(event), targets, { isTest: false })
    }
    if (mailAddress === null) continue
    const [mail] = await query<{ id: string }>(INSERT_MAIL, [newId(Date.now()), event.account_id, event.id])
    if (mail) await queueAlertMail(query, mail.id)
  }
}

/** Adds the deliveries of an event to destinations of one account, which are then to be served; returns their ids. */
export async function addDeliveries(
  query: Query,
  event: AlertTriggeredBody,
  targets: readonly DeliveryTarget[],
  { isTest }: { isTest: boolean },
): Promise<string[]> {
  const text = JSON.stringify(event)
  const deliveries = targets.map(({ id: endpoint_id, account_id, label, url, platform }) => ({
    id: newId(Date.now()),
    account_id,
    event_id: event.id,
    event_type: event.type,
    event: text,
    is_test: isTest,
    endpoint_id,
    endpoint_label: label,
    endpoint_url: url,
    platform,
    body: bodyFor(platform, url, event),
    // Postgres reads the word as the moment of its transaction.
    status: 'pending',
    next_attempt_at: 'now',
    created_at: 'now',
  }))
  await insertRows(
    query,
    'webhook_deliveries',
    `id, account_id, event_id, event_type, event, is_test, endpoint_id, endpoint_label, endpoint_url, platform, body, status,
      next_attempt_at, created_at`,
    deliveries,
    'ON CONFLICT (event_id, endpoint_id) DO NOTHING',
  )
  return deliveries.map(({ id }) => id)
}
