/**
 * What every ClickHouse table of the platform is made of: columns, engine, order, partitions, retention.
 *
 * Invariant: every table replaces or merges rows of one key, so that writing the
 * same rows again, in any order and any number of times, changes nothing for its readers.
 */
import { Refused } from '../runtime/refused.ts'
import type { ClickhouseWriter } from './clickhouse.ts'

/** One table; `columns` are in the order in which rows are written. */
export interface Table {
  readonly name: string
  /** The only role that writes it. */
  readonly writer: string
  /** Column → type; the first row of every insert lists them in this order. */
  readonly columns: Readonly<Record<string, string>>
  readonly engine: string
  readonly orderBy: string
  readonly partitionBy: string
  /** Expression of a Date or DateTime after which a row may go. */
  readonly expires?: string
  /** Rows of a granule, the least that a read takes; fewer than the server's 8,192 where reads are of single items. */
  readonly granularity?: number
  /** All columns of a stored part in one file, however large it is: a read of one item opens one instead of twenty. */
  readonly isCompact?: boolean
}

/** No part is as large. */
const WIDE_FROM_BYTES = 2 ** 50

/**
 * Blocks whose token is remembered, so that an insert that is sent again after a lost answer is recognized
 * as a repeat (infra/clickhouse/batcher.ts).
 */
const TOKENS_REMEMBERED = 1_000

/** What a statement that makes, drops or exchanges tables says so that all replicas of a cluster do it; nothing for one server. */
export const onCluster = (cluster: string | undefined): string =>
  cluster === undefined ? '' : ` ON CLUSTER \`${cluster}\``

/** The statement that creates a table where it is missing: on one server, or replicated on all of a cluster. */
export function createTable(database: string, table: Table, cluster?: string): string {
  const columns = Object.entries(table.columns).map(([name, type]) => `  ${name} ${type}`)
  return [
    `CREATE TABLE IF NOT EXISTS ${database}.${table.name}${onCluster(cluster)} (`,
    columns.join(',\n'),
    ')',
    `ENGINE = ${cluster === undefined ? table.engine : replicated(table.engine)}`,
    `PARTITION BY ${table.partitionBy}`,
    `ORDER BY ${table.orderBy}`,
    ...(table.expires ? [`TTL ${table.expires}`] : []),
    `SETTINGS ${settingsOf(table, cluster !== undefined).join(', ')}`,
  ].join('\n')
}

/** The path holds the table's UUID, which an exchange of two tables leaves alone, where one by name would be taken twice. */
const REPLICA = "'/clickhouse/tables/{uuid}/{shard}', '{replica}'"

/** `ReplacingMergeTree(version)` as its replicated counterpart. */
function replicated(engine: string): string {
  const [, name, given] = /^(\w*MergeTree)(?:\((.*)\))?$/.exec(engine) ?? []
  if (name === undefined) throw new Error(`${engine} has no replicated counterpart`)
  return `Replicated${name}(${[REPLICA, ...(given ? [given] : [])].join(', ')})`
}

const settingsOf = ({ granularity, isCompact }: Table, isReplicated: boolean): string[] => [
  ...[`${isReplicated ? '' : 'non_'}replicated_deduplication_window = ${TOKENS_REMEMBERED}`, 'ttl_only_drop_parts = 1'],
  ...(granularity === undefined ? [] : [`index_granularity = ${granularity}`]),
  ...(isCompact ? [`min_bytes_for_wide_part = ${WIDE_FROM_BYTES}`] : []),
]

/** Creates what is missing of the writer's database and of the tables in it. Never alters or drops a table: a repeat changes nothing. */
export async function setUpClickhouse(writer: ClickhouseWriter, tables: readonly Table[]): Promise<void> {
  const { database, cluster } = writer
  if (cluster !== undefined) await expectOneShard(writer, cluster)
  await writer.command(`CREATE DATABASE IF NOT EXISTS ${database}${onCluster(cluster)}`)
  for (const table of tables) await writer.command(createTable(database, table, cluster))
}

/** Readers ask one replica, which must have every row. */
async function expectOneShard(writer: ClickhouseWriter, cluster: string): Promise<void> {
  const [found] = await writer.rows<{ shards: number }>(
    'SELECT uniqExact(shard_num) AS shards FROM system.clusters WHERE cluster = {cluster:String}',
    { cluster },
  )
  const shards = found?.shards ?? 0
  if (shards === 0) throw new Refused(`ClickHouse knows no cluster ${cluster}; check CLICKHOUSE_CLUSTER`)
  if (shards > 1)
    throw new Refused(`the cluster ${cluster} has ${shards} shards; CLICKHOUSE_CLUSTER must name one of a single shard`)
}
