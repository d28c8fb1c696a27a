/**
 * The current state of an alert rule (accounts.alert-rules, compacted).
 *
 * Key: the alert's id; a tombstone removes it. Partitioned by item (`partitionOf(item_id)`), as market.book-changes is,
 * so that the consumer of an item's changes also reads its rules. `version` grows with every change of an alert. The
 * item of an alert never changes, so its records stay in one partition.
 */
import { ALERT_KINDS } from '../values/alert.ts'
import { defineEvent, type EventValue, nullable } from './event.ts'

export const alertRuleChanged = defineEvent('AlertRuleChanged', 1, 'An alert was created or changed.', {
  alert_id: 'string',
  account_id: 'string',
  item_id: 'int',
  kind: { type: 'enum', name: 'AlertRuleKind', symbols: ALERT_KINDS },
  /** Decimal text: a price in `threshold_currency`, or a percentage. */
  threshold_value: 'string',
  /** Null for spreads. */
  threshold_currency: nullable('string'),
  is_enabled: 'boolean',
  version: 'long',
  /** When its owner changed it, or it fired. */
  changed_at: 'long',
})

export type AlertRuleChanged = EventValue<typeof alertRuleChanged>

export type StoredRule = { id: string } & Omit<AlertRuleChanged, 'alert_id' | 'changed_at'>
