/**
 * The parts of every ClickHouse table of the platform: columns, engine, order, partitions, retention.
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
  /** Column → type, with its DEFAULT where it joined later; the first row of every insert lists them in this order. */
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

/** Has all replicas of a cluster carry out a statement that makes or drops tables; empty for one server. */
export const onCluster = (cluster: string | undefined): string =>
  cluster === undefined ? '' : ` ON CLUSTER \`${cluster}\``

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
    `SETTINGS ${settingsOf(table)
      .map(([name, value]) => `${name} = ${value}`)
      .join(', ')}`,
  ].join('\n')
}

/** By the table's UUID: a path by name may still be taken after a table of that name was dropped. */
const REPLICA = "'/clickhouse/tables/{uuid}/{shard}', '{replica}'"

function replicated(engine: string): string {
  const [, name, given] = /^(\w*MergeTree)(?:\((.*)\))?$/.exec(engine) ?? []
  if (name === undefined) throw new Error(`${engine} has no replicated counterpart`)
  return `Replicated${name}(${[REPLICA, ...(given ? [given] : [])].join(', ')})`
}

const settingsOf = ({ granularity, isCompact }: Table): [name: string, value: string][] => {
  const settings: [string, string][] = [
    ['ttl_only_drop_parts', '1'],
    // An insert is answered when its rows are on the disk: a position that follows them must not outlive them.
    ['fsync_after_insert', '1'],
    ['fsync_part_directory', '1'],
  ]
  if (granularity !== undefined) settings.push(['index_granularity', String(granularity)])
  if (isCompact) settings.push(['min_bytes_for_wide_part', String(WIDE_FROM_BYTES)])
  return settings
}

/** Creates what is missing of the writer's database and of the tables in it; a repeat changes nothing. */
export async function setUpClickhouse(writer: ClickhouseWriter, tables: readonly Table[]): Promise<void> {
  const { database, cluster } = writer
  if (cluster !== undefined) await expectOneShard(writer, cluster)
  await writer.command(`CREATE DATABASE IF NOT EXISTS ${database}${onCluster(cluster)}`)
  for (const table of tables) await writer.command(createTable(database, table, cluster))
}

/** Throws where the database has a table of one of these names: they are of an earlier form, which no release had. */
export async function refuseFormer(writer: ClickhouseWriter, names: readonly string[]): Promise<void> {
  const [former] = await writer.rows<{ name: string }>(
    'SELECT name FROM system.tables WHERE database = {database:String} AND has({names:Array(String)}, name)',
    { database: writer.database, names },
  )
  if (former)
    throw new Refused(
      `${former.name} in ClickHouse is of an earlier form of the platform, whose data cannot be taken over: \`make clean\` wipes all of it`,
    )
}

/** Readers ask one replica, which must have every row. */
async function expectOneShard(writer: ClickhouseWriter, cluster: string): Promise<void> {
  const [row] = await writer.rows<{ shards: number }>(
    'SELECT uniqExact(shard_num) AS shards FROM system.clusters WHERE cluster = {cluster:String}',
    { cluster },
  )
  const shards = row?.shards ?? 0
  if (shards === 0) throw new Refused(`ClickHouse knows no cluster ${cluster}; check CLICKHOUSE_CLUSTER`)
  if (shards > 1)
    throw new Refused(`the cluster ${cluster} has ${shards} shards; CLICKHOUSE_CLUSTER must name one of a single shard`)
}
