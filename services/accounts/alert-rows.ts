/**
 * Alerts as they are stored, and what is made of a row.
 *
 * Invariant: a threshold keeps the decimals that its owner wrote, so it is a text here and never a float.
 */
import type { AlertRuleChanged } from '#schemas/events/alert-rule-changed.ts'
import type { AlertKind } from '#schemas/values/alert.ts'
import type { OutboxEntry } from './outbox.ts'

/** A stored alert; times in milliseconds since the epoch. */
export interface StoredAlert {
  id: string
  accountId: string
  itemId: number
  marketHashName: string
  phase: string | null
  kind: AlertKind
  thresholdValue: string
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

/** What is published of an alert's current state. */
export function outboxEntryOf(alert: StoredAlert): OutboxEntry {
  const changed: AlertRuleChanged = {
    alert_id: alert.id,
    account_id: alert.accountId,
    item_id: alert.itemId,
    kind: alert.kind,
    threshold_value: alert.thresholdValue,
    threshold_currency: alert.thresholdCurrency,
    is_enabled: alert.isEnabled,
    version: alert.version,
    changed_at: alert.updatedAt,
  }
  return { alertId: alert.id, itemId: alert.itemId, changed }
}
