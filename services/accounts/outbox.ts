/**
 * The outbox: what is to be published of a change, written in the transaction of that change.
 *
 * Writes the table outbox. Invariant: a row's id is drawn while its alert's row is locked, so the rows of one alert
 * ascend in the order of its changes; payloads are the members of AlertRuleChanged, as events spell them.
 */
import type { Query } from '#infra/postgres/pool.ts'
import type { AlertRuleChanged } from '#schemas/events/alert-rule-changed.ts'
import { topics } from '#schemas/topics.ts'

/** An alert's new state; null once it is deleted. */
export interface OutboxEntry {
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
