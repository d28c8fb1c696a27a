/**
 * Alerts and their events as they are stored, and page by page for their account.
 *
 * Reads alerts, alert_events and the tables of deliveries; writes nothing. Newest first, by ids that ascend with time, so a
 * page is one walk along an index; nothing of another account is read. A threshold keeps the decimals that its owner wrote,
 * so it is a text here and never a float. Moments are ISO 8601.
 */
import type { z } from 'zod'
import { type Database, readPage, slicesById } from '#infra/postgres/pool.ts'
import type { alertEventReply } from '#schemas/api/alerts.ts'
import type { StoredRule } from '#schemas/events/alert-rule-changed.ts'
import type { StoredTrigger } from '#schemas/events/alert-triggered.ts'
import { plainName } from '#schemas/values/item-name.ts'

export interface StoredAlert extends StoredRule {
  market_hash_name: string
  phase: string | null
  last_triggered_at: string | null
  created_at: string
  updated_at: string
}

export const ALERT_COLUMNS = `alerts.id, account_id, item_id, market_hash_name, phase, kind, threshold_value::text AS threshold_value,
  threshold_currency, is_enabled, alerts.version::float8 AS version, last_triggered_at, created_at, updated_at`

interface ListPage {
  limit: number
  offset: number
}

/** The event of an alert that fired, with the states of its deliveries. */
export type StoredAlertEvent = z.infer<typeof alertEventReply>

const DIGITS = /^\d{1,15}$/

/** A page of an account's alerts; `search` is an item's id or a part of its name. */
export function listAlerts(
  { rows }: Database,
  accountId: string,
  { search, ...page }: ListPage & { search: string | undefined },
): Promise<{ rows: StoredAlert[]; total: number }> {
  const [filter, value] = filterOf(search)
  const source = `alerts WHERE account_id = $1 AND ${filter}`
  return readPage(rows, { columns: ALERT_COLUMNS, source, order: 'id DESC' }, [accountId, value], page)
}

/** A condition on `$2` and its value. */
function filterOf(search: string | undefined): [filter: string, value: string | null] {
  if (search === undefined) return ['$2::text IS NULL', null]
  if (DIGITS.test(search)) return ['item_id = $2::bigint', search]
  const name = `regexp_replace(market_hash_name, '\\s+', ' ', 'g')`
  return [`strpos(lower(${name}), lower($2::text)) > 0`, plainName(search)]
}

/** The alerts of an account, oldest first. */
export const alertSlices = (database: Database, accountId: string) =>
  slicesById<StoredAlert>(database.rows, `SELECT ${ALERT_COLUMNS} FROM alerts WHERE account_id = $1`, [accountId])

type EventRow = Omit<StoredAlertEvent, 'item' | 'deliveries'> & StoredAlertEvent['item']

const EVENTS = {
  columns: `id, alert_id, item_id, market_hash_name, phase, kind, triggered_value::text AS triggered_value, triggered_currency, reason,
    created_at`,
  source: 'alert_events WHERE account_id = $1',
  order: 'id DESC',
}

/** A page of an account's alert events, with their deliveries. */
export async function listAlertEvents(database: Database, accountId: string, page: ListPage) {
  const { rows, total } = await readPage<EventRow>(database.rows, EVENTS, [accountId], page)
  return { rows: await withDeliveries(database, rows), total }
}

/** The alert events of an account with their deliveries, oldest first. */
export async function* alertEventSlices(database: Database, accountId: string): AsyncGenerator<StoredAlertEvent[]> {
  const select = `SELECT ${EVENTS.columns} FROM ${EVENTS.source}`
  for await (const rows of slicesById<EventRow>(database.rows, select, [accountId]))
    yield await withDeliveries(database, rows)
}

const DELIVERIES = `SELECT event_id, 'email' AS channel, status, id AS delivery_id, NULL::uuid AS endpoint_id,
    NULL AS endpoint_label, NULL AS platform, attempt_count, NULL::int AS last_http_status, next_attempt_at, error, created_at
  FROM email_deliveries WHERE event_id = ANY ($1::uuid[])
  UNION ALL
  SELECT event_id, 'webhook', status, id, endpoint_id, endpoint_label, platform, attempt_count, last_http_status,
    next_attempt_at, error, created_at
  FROM webhook_deliveries WHERE event_id = ANY ($1::uuid[])
  ORDER BY created_at, delivery_id`

async function withDeliveries(database: Database, rows: readonly EventRow[]): Promise<StoredAlertEvent[]> {
  if (rows.length === 0) return []
  const deliveries = await database.rows<StoredAlertEvent['deliveries'][number] & { event_id: string }>(DELIVERIES, [
    rows.map(({ id }) => id),
  ])
  const byEvent = Map.groupBy(deliveries, ({ event_id }) => event_id)
  return rows.map(({ item_id, market_hash_name, phase, ...event }) => ({
    ...event,
    item: { item_id, market_hash_name, phase },
    deliveries: (byEvent.get(event.id) ?? []).map(({ event_id: _, ...delivery }) => delivery),
  }))
}

const RULES = `SELECT id, account_id, item_id, kind, threshold_value::text AS threshold_value, threshold_currency, is_enabled,
    version::float8 AS version
  FROM alerts WHERE true`

const TRIGGERS = `SELECT id, alert_id, alert_version::text AS alert_version, triggered_value::text AS triggered_value,
    triggered_currency, best_ask_micro_usd::text AS best_ask_micro_usd, best_bid_micro_usd::text AS best_bid_micro_usd,
    ask_provider, bid_provider
  FROM alert_events WHERE true`

const PAGE_ROWS = 20_000

/** Passes the rules of all accounts, by ascending id. */
export const readAllRules = (database: Database, pass: (rule: StoredRule) => void): Promise<void> =>
  readAll(database, RULES, pass)

/** Passes the triggers that all events were recorded of, by ascending id of the event. */
export const readAllTriggers = (database: Database, pass: (trigger: StoredTrigger) => void): Promise<void> =>
  readAll(database, TRIGGERS, pass)

async function readAll<T extends { id: string }>(
  database: Database,
  select: string,
  pass: (row: T) => void,
): Promise<void> {
  for await (const rows of slicesById<T>(database.rows, select, [], PAGE_ROWS)) rows.forEach(pass)
}
