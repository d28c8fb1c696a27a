/**
 * Relays the outbox to the log, in its order, and deletes what the log holds.
 *
 * Reads and deletes outbox, writes accounts.alert-rules and dead-letters. States: waiting for the advisory lock (held by a transaction
 * that does nothing else) -> relaying -> (lost) -> waiting. The last record of a key is its last state: one process relays at a time,
 * and the process that acquires the lock fences first the producer of the one before, so what that one had still to send when it froze is
 * refused. What a crash leaves undeleted is sent again from the oldest on. A row that cannot be published becomes a dead letter in the
 * same transaction, for good: each row is the whole state of its alert, so those behind it lack nothing, and since it is never sent
 * later, it brings back nothing that they have changed or deleted. A trigger by a state before names its version, and disarms nothing.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Outgoing } from '#infra/kafka/publisher.ts'
import { openTransactionalProducer } from '#infra/kafka/transactional-producer.ts'
import type { Database } from '#infra/postgres/pool.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import { type AlertRuleChanged, alertRuleChanged } from '#schemas/events/alert-rule-changed.ts'
import { topics } from '#schemas/topics.ts'
import { partitionOf } from '#schemas/values/partition.ts'
import { type LetterOf, openDeadLetters } from '#streams/runner/dead-letters.ts'

interface RelayParts {
  database: Database
  kafka: KafkaConnection
  log: Log
  metrics: Metrics
}

interface OutboxRow {
  id: string
  topic: string
  key: string
  partition_key: string
  payload: AlertRuleChanged | null
}

/** Any number, the same in all versions of the platform. */
const LOCK = 7_236_415
const LOCK_POLL_MS = 500
const RETRY_LONGEST_MS = 5_000
/** Of one commit; with their bounds, as records or as dead letters, they fit into the smallest batch that brokers accept by default. */
const ROWS = 500
const PART_BYTES = 512
const IDLE_MS = 50
const MEASURE_MS = 2_000
const OVERDUE_SECONDS = 60
const COUNTED = 100_000

/** By the clock of Postgres, which also dates the rows. */
const MEASURE = `SELECT (SELECT count(*)::int FROM (SELECT FROM outbox LIMIT ${COUNTED}) o) AS rows,
  coalesce((SELECT extract(epoch FROM now() - created_at)::float8 FROM outbox ORDER BY id LIMIT 1), 0) AS age`

/** Begins to relay; a lost dependency is tried again with growing pauses until the relay is stopped. */
export function startRelay(parts: RelayParts) {
  const { database, log, metrics } = parts
  const ending = new AbortController()
  const { signal } = ending
  const idle = (ms: number): Promise<unknown> => pause(ms, undefined, { signal }).catch(() => undefined)

  async function run(): Promise<void> {
    for (let pauseMs = LOCK_POLL_MS; !signal.aborted; await idle(pauseMs)) {
      try {
        await relayWithLock(parts, signal)
        pauseMs = LOCK_POLL_MS
      } catch (error) {
        if (!signal.aborted) log.warn({ err: error }, 'the outbox could not be relayed; it is tried again')
        pauseMs = Math.min(pauseMs * 2, RETRY_LONGEST_MS)
      }
    }
  }
  const depth = metrics.gauge('marketlog_outbox_rows', `Rows of the outbox that the log lacks, ${COUNTED} at most.`)
  const age = metrics.gauge('marketlog_outbox_age_seconds', 'Age of the oldest row of the outbox.')
  let oldest = 0
  /** While Postgres does not answer, the last figures stay. */
  async function measure(): Promise<void> {
    for (; !signal.aborted; await idle(MEASURE_MS)) {
      const [outbox] = await database.rows<{ rows: number; age: number }>(MEASURE).catch(() => [])
      if (!outbox) continue
      oldest = outbox.age
      depth.set(outbox.rows)
      age.set(oldest)
    }
  }
  const running = [run(), measure()]
  return {
    /** A sentence on changes that wait too long, whichever process is to relay them. */
    overdue: (): string | undefined =>
      oldest > OVERDUE_SECONDS ? `changes of alerts have waited ${Math.floor(oldest)} s for the log` : undefined,
    async stop() {
      ending.abort()
      await Promise.all(running)
    },
  }
}

/** Relays while it holds the lock, which ends with its connection; returns at once where another process holds it. */
const relayWithLock = ({ database, kafka, log, metrics }: RelayParts, signal: AbortSignal): Promise<void> =>
  database.transaction(async query => {
    const [row] = await query<{ acquired: boolean }>('SELECT pg_try_advisory_xact_lock($1) AS acquired', [LOCK])
    if (!row?.acquired) return
    await kafka.codec.prepare([...topics.alertRules.events, ...topics.deadLetters.events])
    const writers = [topics.alertRules.writer, topics.deadLetters.writer]
    const producer = await openTransactionalProducer(kafka, { transactionalId: 'alerts-outbox', writers })
    const letterOf = openDeadLetters({ group: 'alerts', codec: kafka.codec, metrics, log })
    try {
      await producer.lock()
      while (!signal.aborted) {
        const rows = await database.rows<OutboxRow>(
          'SELECT id, topic, key, partition_key, payload FROM outbox ORDER BY id LIMIT $1',
          [ROWS],
        )
        if (rows.length > 0) {
          await producer.commit(rows.flatMap(one => recordOf(kafka, letterOf, one)))
          await database.rows('DELETE FROM outbox WHERE id = ANY ($1::bigint[])', [rows.map(({ id }) => id)])
        } else await pause(IDLE_MS)
        // Postgres ends an idle transaction, and the lock with it: so it does when this process has frozen.
        await query('SELECT 1')
      }
    } finally {
      await producer.close()
    }
  })

function recordOf(kafka: KafkaConnection, letterOf: LetterOf, row: OutboxRow): Outgoing[] {
  const { id, key, partition_key, payload } = row
  const value = encodedRow(kafka, row)
  if (value === null || Buffer.isBuffer(value)) {
    const partition = partitionOf(partition_key, topics.alertRules.partitions)
    return [{ topic: 'alertRules', key, value, partition }]
  }
  const cut = (text: string) => Buffer.from(text).subarray(0, PART_BYTES)
  const source = { topic: 'outbox', partition: 0, offset: Number(id) }
  const raw = { ...source, key: cut(key), value: cut(JSON.stringify(payload)) }
  const letter = letterOf(raw, { kind: 'deadLetter', ...value, detail: value.detail.slice(0, 200) })
  return letter ? [letter] : []
}

/** The value that is published of a row, or the reason of its dead letter. */
function encodedRow(
  { codec }: KafkaConnection,
  { topic, key, payload }: OutboxRow,
): Buffer | null | { reason: string; detail: string } {
  if (topic !== topics.alertRules.name) return { reason: 'unknown_topic', detail: `alerts do not write ${topic}` }
  const tooLarge = { reason: 'rule_too_large', detail: `a rule and its key have ${PART_BYTES} bytes each at most` }
  if (Buffer.byteLength(key) > PART_BYTES) return tooLarge
  if (payload === null) return null
  try {
    const value = codec.encode(alertRuleChanged, payload)
    return value.length > PART_BYTES ? tooLarge : value
  } catch (error) {
    return { reason: 'unusable_rule', detail: String(error) }
  }
}
