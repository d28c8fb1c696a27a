/**
 * Alerts and their events as they are stored, and page by page for their account.
 *
 * Reads alerts, alert_events and the tables of deliveries; writes nothing. Newest first, by ids that ascend with time, so a
 * page is one walk along an index; nothing of another account is read. A threshold keeps the decimals that its owner wrote,
 * so it is a text here and never a float.
 */
import type { Database } from '#infra/postgres/pool.ts'
import { slicesById } from '#infra/postgres/slices.ts'
import type { StoredRule } from '#schemas/events/alert-rule-changed.ts'
import type { StoredTrigger } from '#schemas/events/alert-triggered.ts'
import type { AlertKind } from '#schemas/values/alert.ts'
import { plainName } from '#schemas/values/item-name.ts'
import type { AlertEvent } from '../delivery/event-body.ts'

/** A stored alert; times in milliseconds since the epoch. */
export interface StoredAlert {
  id: string
  accountId: string
  itemId: number
  marketHashName: string
  phase: string | null
  kind: AlertKind
  thresholdValue: string
  /** Null for spreads. */
  thresholdCurrency: string | null
  isEnabled: boolean
  version: number
  lastTriggeredAt: number | null
  createdAt: number
  updatedAt: number
}

/** A row of {@link ALERT_COLUMNS}. */
export interface AlertRow {
  id: string
  account_id: string
  item_id: number
  market_hash_name: string
  phase: string | null
  kind: AlertKind
  threshold_value: string
  threshold_currency: string | null
  is_enabled: boolean
  version: string
  last_triggered_at: Date | null
  created_at: Date
  updated_at: Date
}

/** The columns of a stored alert. */
export const ALERT_COLUMNS = `a.id, a.account_id, a.item_id, a.market_hash_name, a.phase, a.kind,
  a.threshold_value::text AS threshold_value, a.threshold_currency, a.is_enabled, a.version, a.last_triggered_at,
  a.created_at, a.updated_at`

/** The stored alert of a row. */
export const alertOfRow = (row: AlertRow): StoredAlert => ({
  id: row.id,
  accountId: row.account_id,
  itemId: row.item_id,
  marketHashName: row.market_hash_name,
  phase: row.phase,
  kind: row.kind,
  thresholdValue: row.threshold_value,
  thresholdCurrency: row.threshold_currency,
  isEnabled: row.is_enabled,
  version: Number(row.version),
  lastTriggeredAt: row.last_triggered_at?.getTime() ?? null,
  createdAt: row.created_at.getTime(),
  updatedAt: row.updated_at.getTime(),
})

/** Which part of a list. */
interface ListPage {
  limit: number
  offset: number
}

/** The event of an alert that fired; times in milliseconds since the epoch. */
export interface StoredAlertEvent {
  id: string
  alertId: string
  itemId: number
  marketHashName: string
  phase: string | null
  kind: AlertKind
  triggeredValue: string
  triggeredCurrency: string | null
  reason: string
  createdAt: number
  deliveries: StoredDelivery[]
}

/** The state of an event's delivery by one channel. */
interface StoredDelivery {
  channel: 'email' | 'webhook'
  status: string
  deliveryId: string
  endpointId: string | null
  endpointLabel: string | null
  platform: string | null
  attemptCount: number
  lastHttpStatus: number | null
  nextAttemptAt: number | null
  error: string | null
  createdAt: number
}

const DIGITS = /^\d{1,15}$/

/** A page of an account's alerts; `search` is an item's id or a part of its name. */
export async function listAlerts(
  database: Database,
  accountId: string,
  { limit, offset, search }: ListPage & { search: string | undefined },
): Promise<{ alerts: StoredAlert[]; total: number }> {
  const [filter, value] = filterOf(search)
  const where = `a.account_id = $1 AND ${filter}`
  const rows = await database.rows<AlertRow>(
    `SELECT ${ALERT_COLUMNS} FROM alerts a WHERE ${where} ORDER BY a.id DESC LIMIT $3 OFFSET $4`,
    [accountId, value, limit, offset],
  )
  const [count] = await database.rows<{ total: number }>(`SELECT count(*)::int AS total FROM alerts a WHERE ${where}`, [
    accountId,
    value,
  ])
  return { alerts: rows.map(alertOfRow), total: count?.total ?? 0 }
}

/** A condition on `$2` and its value. */
function filterOf(search: string | undefined): [filter: string, value: string | null] {
  if (search === undefined) return ['$2::text IS NULL', null]
  if (DIGITS.test(search)) return ['a.item_id = $2::bigint', search]
  const name = `regexp_replace(a.market_hash_name, '\\s+', ' ', 'g')`
  return [`strpos(lower(${name}), lower($2::text)) > 0`, plainName(search)]
}

/** The alerts of an account, oldest first. */
export async function* alertSlices(database: Database, accountId: string): AsyncGenerator<StoredAlert[]> {
  const select = `SELECT ${ALERT_COLUMNS} FROM alerts a WHERE a.account_id = $1`
  for await (const rows of slicesById<AlertRow>(database.rows, select, { values: [accountId] }))
    yield rows.map(alertOfRow)
}

type ShownMember = 'id' | 'alert_id' | 'triggered_value' | 'triggered_currency' | 'reason' | 'created_at'
type ShownEvent = Pick<AlertEvent, ShownMember | 'item_id' | 'market_hash_name' | 'phase' | 'kind'>

const EVENTS = `SELECT id, alert_id, item_id, market_hash_name, phase, kind, triggered_value::text AS triggered_value,
    triggered_currency, reason, created_at
  FROM alert_events WHERE account_id = $1`

/** A page of an account's alert events, with their deliveries. */
export async function listAlertEvents(
  database: Database,
  accountId: string,
  { limit, offset }: ListPage,
): Promise<{ events: StoredAlertEvent[]; total: number }> {
  const rows = await database.rows<ShownEvent>(`${EVENTS} ORDER BY id DESC LIMIT $2 OFFSET $3`, [
    ...[accountId, limit, offset],
  ])
  const [count] = await database.rows<{ total: number }>(
    'SELECT count(*)::int AS total FROM alert_events WHERE account_id = $1',
    [accountId],
  )
  return { events: await withDeliveries(database, rows), total: count?.total ?? 0 }
}

/** The alert events of an account with their deliveries, oldest first. */
export async function* alertEventSlices(database: Database, accountId: string): AsyncGenerator<StoredAlertEvent[]> {
  for await (const rows of slicesById<ShownEvent>(database.rows, EVENTS, { values: [accountId] }))
    yield await withDeliveries(database, rows)
}

async function withDeliveries(database: Database, rows: readonly ShownEvent[]): Promise<StoredAlertEvent[]> {
  const deliveries = await deliveriesOf(
    database,
    rows.map(({ id }) => id),
  )
  return rows.map(row => ({
    id: row.id,
    alertId: row.alert_id,
    itemId: row.item_id,
    marketHashName: row.market_hash_name,
    phase: row.phase,
    kind: row.kind,
    triggeredValue: row.triggered_value,
    triggeredCurrency: row.triggered_currency,
    reason: row.reason,
    createdAt: row.created_at.getTime(),
    deliveries: deliveries.get(row.id) ?? [],
  }))
}

interface DeliveryRow {
  event_id: string
  channel: 'email' | 'webhook'
  status: string
  id: string
  endpoint_id: string | null
  endpoint_label: string | null
  platform: string | null
  attempt_count: number
  last_http_status: number | null
  next_attempt_at: Date | null
  error: string | null
  created_at: Date
}

const DELIVERIES = `SELECT event_id, 'email' AS channel, status, id, NULL::uuid AS endpoint_id, NULL AS endpoint_label,
    NULL AS platform, attempt_count, NULL::int AS last_http_status, next_attempt_at, error, created_at
  FROM email_deliveries WHERE event_id = ANY ($1::uuid[])
  UNION ALL
  SELECT event_id, 'webhook', status, id, endpoint_id, endpoint_label, platform, attempt_count, last_http_status,
    next_attempt_at, error, created_at
  FROM webhook_deliveries WHERE event_id = ANY ($1::uuid[])
  ORDER BY created_at, id`

async function deliveriesOf(database: Database, eventIds: readonly string[]): Promise<Map<string, StoredDelivery[]>> {
  if (eventIds.length === 0) return new Map()
  const rows = await database.rows<DeliveryRow>(DELIVERIES, [eventIds])
  const byEvent = Map.groupBy(rows, row => row.event_id)
  return new Map([...byEvent].map(([id, ofEvent]) => [id, ofEvent.map(deliveryOfRow)]))
}

const deliveryOfRow = (row: DeliveryRow): StoredDelivery => ({
  channel: row.channel,
  status: row.status,
  deliveryId: row.id,
  endpointId: row.endpoint_id,
  endpointLabel: row.endpoint_label,
  platform: row.platform,
  attemptCount: row.attempt_count,
  lastHttpStatus: row.last_http_status,
  nextAttemptAt: row.next_attempt_at?.getTime() ?? null,
  error: row.error,
  createdAt: row.created_at.getTime(),
})

const RULES = `SELECT id, account_id, item_id, kind, threshold_value::text AS threshold_value, threshold_currency, is_enabled,
    version
  FROM alerts WHERE true`

const TRIGGERS = `SELECT id, alert_id, alert_version::text AS alert_version, triggered_value::text AS triggered_value,
    triggered_currency, best_ask_micro_usd::text AS best_ask_micro_usd, best_bid_micro_usd::text AS best_bid_micro_usd,
    ask_provider, bid_provider
  FROM alert_events WHERE true`

/** Passes the rules of all accounts, by ascending id. */
export const readAllRules = (database: Database, take: (rule: StoredRule) => void): Promise<void> =>
  readAll(database, RULES, take)

/** Passes the triggers that all events were recorded of, by ascending id of the event. */
export const readAllTriggers = (database: Database, take: (trigger: StoredTrigger) => void): Promise<void> =>
  readAll(database, TRIGGERS, take)

const PAGE_ROWS = 20_000

async function readAll<T extends { id: string }>(
  database: Database,
  select: string,
  take: (row: T) => void,
): Promise<void> {
  for await (const rows of slicesById<T>(database.rows, select, { rows: PAGE_ROWS })) for (const row of rows) take(row)
}
