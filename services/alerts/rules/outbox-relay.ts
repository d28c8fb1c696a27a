/**
 * Relays the outbox to the log, in its order, and deletes what the log holds.
 *
 * Reads and deletes outbox, writes accounts.alert-rules. States: waiting for the advisory lock (held by a transaction
 * that does nothing else) -> relaying -> (lost) -> waiting. The last record of a key is its last state: one process relays
 * at a time, and the process that takes the lock first fences the producer of the one before, so what that one had still
 * to send when it froze is refused. What a crash leaves undeleted is sent again from the oldest on.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Outgoing } from '#infra/kafka/publisher.ts'
import { openTransactionalProducer, type TransactionalProducer } from '#infra/kafka/transactional-producer.ts'
import type { Database } from '#infra/postgres/pool.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import { type AlertRuleChanged, alertRuleChanged } from '#schemas/events/alert-rule-changed.ts'
import { topics } from '#schemas/topics.ts'
import { partitionOf } from '#schemas/values/partition.ts'

/** What a relay works with. */
interface RelayParts {
  database: Database
  kafka: KafkaConnection
  log: Log
  metrics: Metrics
}

/** A relay that runs. */
export interface Relay {
  stop(): Promise<void>
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
/** Below the time after which Postgres ends an idle transaction. */
const LOCK_KEEP_MS = 3_000
const ROWS = 2_000
const IDLE_MS = 50
const RETRY_MS = [200, 5_000] as const

/** Begins to relay; a lost dependency is tried again with growing pauses until the relay is stopped. */
export function startRelay(parts: RelayParts): Relay {
  const ending = new AbortController()
  const { signal } = ending
  const run = async (): Promise<void> => {
    for (let pauseMs: number = RETRY_MS[0]; !signal.aborted; ) {
      try {
        const hadLock = await withAdvisoryLock(parts.database, signal, isHeld =>
          relayWhile(parts, () => isHeld() && !signal.aborted),
        )
        pauseMs = RETRY_MS[0]
        if (!hadLock) await idle(LOCK_POLL_MS, signal)
      } catch (error) {
        if (signal.aborted) return
        parts.log.warn({ err: error }, 'the outbox could not be relayed; it is tried again')
        await idle(pauseMs, signal)
        pauseMs = Math.min(pauseMs * 2, RETRY_MS[1])
      }
    }
  }
  const running = run()
  return {
    async stop() {
      ending.abort()
      await running
    },
  }
}

const idle = (ms: number, signal: AbortSignal): Promise<unknown> =>
  pause(ms, undefined, { signal }).catch(() => undefined)

/** Works while it holds the lock; false when another process holds it. The lock ends with its connection. */
async function withAdvisoryLock(
  database: Database,
  signal: AbortSignal,
  work: (isHeld: () => boolean) => Promise<void>,
): Promise<boolean> {
  return database.transaction(async query => {
    const [row] = await query<{ taken: boolean }>('SELECT pg_try_advisory_xact_lock($1) AS taken', [LOCK])
    if (!row?.taken || signal.aborted) return false
    let isHeld = true
    const keep = setInterval(() => {
      query('SELECT 1').catch(() => {
        isHeld = false
      })
    }, LOCK_KEEP_MS)
    try {
      await work(() => isHeld)
    } finally {
      clearInterval(keep)
    }
    return true
  })
}

async function relayWhile({ database, kafka, metrics }: RelayParts, goesOn: () => boolean): Promise<void> {
  const relayed = metrics.counter('marketlog_outbox_relayed_total', 'Rows of the outbox that the log took.')
  await kafka.codec.prepare([...topics.alertRules.events])
  const producer = await openTransactionalProducer(kafka, { transactionalId: 'accounts-outbox', writers: ['accounts'] })
  try {
    await producer.lock(() => Promise.resolve())
    while (goesOn()) {
      const count = await relayOnce(database, kafka, producer)
      relayed.inc(count)
      if (count === 0) await pause(IDLE_MS)
    }
  } finally {
    await producer.close()
  }
}

async function relayOnce(database: Database, kafka: KafkaConnection, producer: TransactionalProducer): Promise<number> {
  const rows = await database.rows<OutboxRow>(
    'SELECT id, topic, key, partition_key, payload FROM outbox ORDER BY id LIMIT $1',
    [ROWS],
  )
  if (rows.length === 0) return 0
  await producer.commit(rows.map(row => recordOf(kafka, row)))
  await database.rows('DELETE FROM outbox WHERE id = ANY ($1::bigint[])', [rows.map(({ id }) => id)])
  return rows.length
}

function recordOf(kafka: KafkaConnection, { topic, key, partition_key, payload }: OutboxRow): Outgoing {
  if (topic !== topics.alertRules.name) throw new Error(`the outbox names ${topic}, which accounts do not write`)
  const value = payload === null ? null : kafka.codec.encode(alertRuleChanged, payload)
  return { topic: 'alertRules', key, value, partition: partitionOf(partition_key, topics.alertRules.partitions) }
}
