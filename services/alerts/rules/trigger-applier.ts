/**
 * Applies alerts.triggered to the tables of alerts: one partition of the topic.
 *
 * Writes alerts, alert_events, outbox, consumer_positions and the jobs of delivery, all in one transaction per batch.
 * A trigger disarms its alert by a conditional update - this version, and enabled - and only what that matched
 * becomes an event with a job. Invariant: an alert fires once per version, whatever is repeated or late; the
 * position advances in the same transaction, from the value that this owner knows, so two owners never both write.
 */
import { type Database, insertRows, type Query } from '#infra/postgres/pool.ts'
import { openUuidSource } from '#infra/runtime/uuid-v7.ts'
import type { AlertTriggered } from '#schemas/events/alert-triggered.ts'
import { topics } from '#schemas/topics.ts'
import { OK } from '#streams/runner/outcome.ts'
import type { Position } from '#streams/runner/positions.ts'
import type { PartitionSink } from '#streams/runner/sink-runner.ts'
import { queueFanOut } from '../delivery/fan-out.ts'
import { appendToOutbox } from './commands.ts'
import { ALERT_COLUMNS, type StoredAlert } from './reader.ts'

/** The group and the consumer under which positions are kept. */
export const CONSUMER = 'alerts'

const newId = openUuidSource()

const { name: TOPIC } = topics.alertsTriggered

const DISARM = `UPDATE alerts SET is_enabled = false, version = alerts.version + 1, last_triggered_at = $3, updated_at = $3
  FROM unnest($1::uuid[], $2::bigint[]) AS t(id, version)
  WHERE alerts.id = t.id AND alerts.version = t.version AND is_enabled
  RETURNING ${ALERT_COLUMNS}`

const MOVE = `INSERT INTO consumer_positions AS p (consumer, topic, partition, topic_id, next) VALUES ($1, $2, $3, $4, $5)
  ON CONFLICT (consumer, topic, partition) DO UPDATE SET topic_id = EXCLUDED.topic_id, next = EXCLUDED.next
  WHERE p.topic_id = $6 AND p.next = $7 RETURNING next`

/** The position of the tables in a partition; undefined before its first batch. */
export async function readPosition(database: Database, partition: number): Promise<Position | undefined> {
  const [position] = await database.rows<Position>(
    `SELECT topic_id AS "topicId", next::float8 AS next FROM consumer_positions
     WHERE consumer = $1 AND topic = $2 AND partition = $3`,
    [CONSUMER, TOPIC, partition],
  )
  return position
}

/** Opens a partition whose tables reflect `stored`; `position` is where it goes on, undefined from the log's start. */
export function openTriggerApplier(
  database: Database,
  partition: number,
  { stored, position }: { stored: Position | undefined; position: Position | undefined },
): PartitionSink {
  let triggers = new Map<string, AlertTriggered>()
  let reflected = stored
  return {
    position,
    apply({ event, value }) {
      if (event !== 'AlertTriggered') return OK
      const fault = faultOf(value)
      if (fault) return { kind: 'deadLetter', reason: 'unusable_trigger', detail: fault }
      triggers.set(`${value.alert_id} ${value.version}`, value)
      return OK
    },
    async flush(reached) {
      const batch = [...triggers.values()]
      triggers = new Map()
      await database.transaction(async query => {
        if (batch.length > 0) await disarm(query, batch)
        const to = [reached.topicId, reached.next]
        const from = [reflected?.topicId ?? null, reflected?.next ?? null]
        const moved = await query(MOVE, [CONSUMER, TOPIC, partition, ...to, ...from])
        if (moved.length === 0) throw new Error(`another process has moved partition ${partition} of ${TOPIC}`)
      })
      reflected = reached
    },
    close: async () => undefined,
  }
}

const UUID_FORM = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const NUMBER_FORM = /^\d{1,40}(\.\d{1,20})?$/

/** A record that the table refuses must not keep its batch from being applied. */
function faultOf({ alert_id, triggered_value }: AlertTriggered): string | undefined {
  if (!UUID_FORM.test(alert_id)) return `${alert_id.slice(0, 100)} is no alert id`
  return NUMBER_FORM.test(triggered_value) ? undefined : `${triggered_value.slice(0, 100)} is no amount`
}

/** Disarms the alerts whose version the triggers name, and records an event with a job for each. */
async function disarm(query: Query, batch: readonly AlertTriggered[]): Promise<void> {
  // The moment of recording, from which events are kept.
  const now = Date.now()
  const values = [batch.map(one => one.alert_id), batch.map(one => one.version), new Date(now)]
  const disarmed = await query<StoredAlert>(DISARM, values)
  const byVersion = new Map(batch.map(trigger => [`${trigger.alert_id} ${trigger.version}`, trigger]))
  const events = disarmed.flatMap(alert => {
    const trigger = byVersion.get(`${alert.id} ${alert.version - 1}`)
    return trigger ? [{ id: newId(now), alert, trigger }] : []
  })
  if (events.length === 0) return
  await insertRows(
    query,
    'alert_events',
    `id, account_id, alert_id, alert_version, item_id, market_hash_name, phase, kind, threshold_value, threshold_currency,
      triggered_value, triggered_currency, best_ask_micro_usd, best_bid_micro_usd, ask_provider, bid_provider, reason, created_at`,
    events.map(({ id, alert, trigger }) => ({
      ...trigger,
      ...alert,
      id,
      alert_version: trigger.version,
      reason: reasonOf(alert, trigger),
      created_at: new Date(now),
    })),
  )
  const fired = events.map(({ alert }) => alert)
  await appendToOutbox(query, fired)
  const ids = events.map(({ id }) => id)
  await queueFanOut(query, ids)
}

function reasonOf(alert: StoredAlert, trigger: AlertTriggered): string {
  const { triggered_value: value, triggered_currency: currency, ask_provider, bid_provider } = trigger
  const { kind, threshold_value, threshold_currency } = alert
  if (kind === 'spread_exceeds') {
    const between = `between the best ask at ${ask_provider} and the best bid at ${bid_provider}`
    return `The spread of ${value} % ${between} exceeds ${threshold_value} %.`
  }
  const side = kind === 'price_below' ? 'below' : 'above'
  return `The best ask of ${value} ${currency} at ${ask_provider} is ${side} ${threshold_value} ${threshold_currency}.`
}
