/**
 * What a platform has derived from its log: topics byte for byte, tables and keys row for row.
 *
 * Reads Kafka, ClickHouse and Redis. What several partitions of an input put into one partition of an output has no
 * order among them that the log would define; so a record's key here is its partition and the partition that it
 * stems from, and within that its bytes must come in one order. Places of the derived topics themselves (offsets, which
 * count transaction markers) and the positions that a role notes for itself are left out; nothing else is.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Redis } from '#infra/redis/redis.ts'
import { PROVIDER_PARTITIONS, type TopicKey } from '#schemas/topics.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { partitionOf } from '#schemas/values/partition.ts'
import { healthKey } from '#streams/provider-health/table.ts'
import { readTables } from '#test/fixtures/live-tables.ts'
import type { LedgerEntry } from '#test/harness/ledger.ts'
import { type ReadRecord, readTopic } from '#test/harness/read-topic.ts'
import { readTableRows } from './view-ledgers.ts'

/** Which partition of the input a derived record stems from. */
type SourceOf = (record: ReadRecord) => string

const ofProvider: SourceOf = ({ value }) => `${value.side}|${partitionOf(value.provider, PROVIDER_PARTITIONS)}`
const ofPartition: SourceOf = ({ value }) => `${value.group}|${value.topic}|${value.partition}`

const SOURCES = {
  bookChanges: ({ value }) => `${value.side}|${value.source_partition}`,
  book: () => 'its own',
  refreshes: ofProvider,
  quarantine: ofProvider,
  unresolved: ofPartition,
  deadLetters: ofPartition,
} as const satisfies Partial<Record<TopicKey, SourceOf>>

/** The position that the runner notes with each transaction. */
const POSITION = 'position'

/** The topics that `book` and the runners derive. */
export async function readDerivedTopics(kafka: KafkaConnection): Promise<Record<string, LedgerEntry[]>> {
  const derived: Record<string, LedgerEntry[]> = {}
  for (const [topic, sourceOf] of Object.entries(SOURCES) as [keyof typeof SOURCES, SourceOf][]) {
    const records = await readTopic(kafka, topic)
    derived[`topic ${topic}`] = entriesOf(
      records.filter(({ key }) => key !== POSITION),
      sourceOf,
    )
  }
  return derived
}

/** Triggers from an offset of each partition on, by the partition of their item. */
export const triggerEntries = (records: readonly ReadRecord[]): LedgerEntry[] =>
  entriesOf(records, ({ value }) => String(partitionOfItem(value.item_id)))

/** Summaries of the market; one role writes them to one partition. */
export const summaryEntries = (records: readonly ReadRecord[]): LedgerEntry[] => entriesOf(records, () => 'its own')

const entriesOf = (records: readonly ReadRecord[], sourceOf: SourceOf): LedgerEntry[] =>
  records.map(record => ({
    key: `${record.partition}|${sourceOf(record)}`,
    what: `${record.key} ${record.raw === null ? '-' : record.raw.toString('base64')}`,
  }))

/** The tables that the sinks write. */
export async function readDerivedTables(reader: ClickhouseReader): Promise<Record<string, LedgerEntry[]>> {
  const derived: Record<string, LedgerEntry[]> = {}
  for (const [table, entries] of Object.entries(await readTableRows(reader))) derived[`table ${table}`] = entries
  for (const table of ['sales', 'sales_by_time', 'fx_days']) {
    const rows = await reader.rows<Record<string, unknown>>(`SELECT * FROM ${reader.database}.${table} FINAL`)
    derived[`table ${table}`] = rows.map(row => ({ key: table, what: JSON.stringify(row) })).sort(byText)
  }
  return derived
}

const byText = (one: LedgerEntry, other: LedgerEntry): number =>
  one.what < other.what ? -1 : one.what > other.what ? 1 : 0

/** The keys that the sinks write. */
export async function readDerivedKeys(redis: Redis, prefix: string): Promise<Record<string, LedgerEntry[]>> {
  const { rows, listed, refreshed } = await readTables(redis, prefix)
  const health = await redis.hgetall(healthKey(prefix))
  return {
    'live rows': [...rows].map(([key, row]) => ({ key, what: JSON.stringify(row) })),
    'live listings': listed.map(key => ({ key, what: 'listed' })),
    'live refresh times': [...refreshed].map(([key, at]) => ({ key, what: String(at) })),
    'provider health': Object.entries(health).map(([key, what]) => ({ key, what })),
  }
}
