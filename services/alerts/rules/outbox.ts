/**
 * The outbox: what is to be published of a change, written in the transaction of that change.
 *
 * A row's id is drawn while its alert's row is locked, so the rows of one alert ascend in the order of its changes. Payloads
 * are the members of AlertRuleChanged, as events spell them. outbox-relay.ts deletes what the log holds.
 */
import type { Query } from '#infra/postgres/pool.ts'
import type { AlertRuleChanged } from '#schemas/events/alert-rule-changed.ts'
import { topics } from '#schemas/topics.ts'
import type { StoredAlert } from './reader.ts'

/** An alert's new state; null once it is deleted. */
interface OutboxEntry {
  alertId: string
  itemId: number
  changed: AlertRuleChanged | null
}

const INSERT = `INSERT INTO outbox (topic, key, partition_key, payload)
  SELECT $1, key, partition_key, payload::jsonb
  FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS entry(key, partition_key, payload, nth) ORDER BY nth`

/** Appends the new states of alerts; runs in the transaction that changed them. */
export async function appendToOutbox(query: Query, entries: readonly OutboxEntry[]): Promise<void> {
  if (entries.length === 0) return
  await query(INSERT, [
    topics.alertRules.name,
    entries.map(({ alertId }) => alertId),
    entries.map(({ itemId }) => String(itemId)),
    entries.map(({ changed }) => (changed === null ? null : JSON.stringify(changed))),
  ])
}

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
