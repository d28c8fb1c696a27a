/**
 * An alert rule as its owner's last change left it (accounts.alert-rules, compacted).
 *
 * Key: the alert's id; a tombstone removes it. The partition is the item's (`partitionOf(item_id)`), as that of
 * market.book-changes is, so that the owner of an item's changes reads its rules. Invariant: `version` grows
 * with every change of an alert, and an alert's item never changes, so its records stay in one partition.
 */
import { ALERT_KINDS, type AlertKind } from '../values/alert.ts'
import { defineEvent, optional } from './event.ts'

/** An alert was created or changed. */
export interface AlertRuleChanged {
  alert_id: string
  account_id: string
  item_id: number
  kind: AlertKind
  /** Decimal text: a price in `threshold_currency`, or a percentage. */
  threshold_value: string
  /** Null for spreads. */
  threshold_currency: string | null
  is_enabled: boolean
  version: number
  /** When its owner changed it, or it fired. */
  changed_at: number
}

/** An alert was created or changed. */
export const alertRuleChanged = defineEvent<AlertRuleChanged>(
  'AlertRuleChanged',
  1,
  'An alert was created or changed.',
  {
    alert_id: 'string',
    account_id: 'string',
    item_id: 'int',
    kind: { type: 'enum', name: 'AlertRuleKind', symbols: [...ALERT_KINDS] },
    threshold_value: 'string',
    threshold_currency: optional('string'),
    is_enabled: 'boolean',
    version: 'long',
    changed_at: 'long',
  },
)
