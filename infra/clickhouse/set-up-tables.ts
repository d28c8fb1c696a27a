/**
 * Creates the tables of the platform and adds to them what they lack (table-changes.ts decides).
 *
 * For the set-up step alone. Invariant: nothing is dropped or narrowed, and nothing is changed where one table cannot be brought
 * to what is declared, so a repeat changes nothing and a refused start leaves all as it was.
 */

import { Refused } from '../runtime/refused.ts'
import type { ClickhouseReader, ClickhouseWriter } from './clickhouse.ts'
import { onCluster, type Table } from './table.ts'
import { type FoundTable, type TableChange, tableChanges } from './table-changes.ts'

/** What set-up would change of the tables of a database. */
export async function planTables(reader: ClickhouseReader, tables: readonly Table[]): Promise<TableChange[]> {
  return tableChanges(reader, tables, await readTables(reader))
}

/**
 * Creates what is missing of the writer's database and of the tables in it, and adds what they lack; resolves with the statements.
 * Throws {@link UnfitTable}, with no table changed, where one differs otherwise.
 */
export async function setUpClickhouse(writer: ClickhouseWriter, tables: readonly Table[]): Promise<string[]> {
  const { database, cluster } = writer
  if (cluster !== undefined) await expectOneShard(writer, cluster)
  await writer.command(`CREATE DATABASE IF NOT EXISTS ${database}${onCluster(cluster)}`)
  const changes = await planTables(writer, tables)
  const faults = changes.flatMap(change => ('fault' in change ? [change.fault] : []))
  if (faults.length > 0) throw new UnfitTable(faults.join('; '))
  const statements = changes.flatMap(change => ('statement' in change ? [change.statement] : []))
  for (const statement of statements) await writer.command(statement)
  return statements
}

/** A table on the server is not what this version declares, and adding to it does not make it so. */
export class UnfitTable extends Error {}

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

/** The tables of a database as they are; none where the database is missing. */
async function readTables(reader: ClickhouseReader): Promise<Map<string, FoundTable>> {
  const params = { database: reader.database }
  const tables = await reader.rows<Omit<FoundTable, 'columns'>>(
    `SELECT name, engine_full AS engineFull, sorting_key AS sortingKey, partition_key AS partitionKey
       FROM system.tables WHERE database = {database:String}`,
    params,
  )
  const columns = await reader.rows<{ table: string; name: string; type: string }>(
    'SELECT table, name, type FROM system.columns WHERE database = {database:String} ORDER BY table, position',
    params,
  )
  const byTable = Map.groupBy(columns, ({ table }) => table)
  return new Map(
    tables.map(table => [
      table.name,
      { ...table, columns: new Map((byTable.get(table.name) ?? []).map(({ name, type }) => [name, type])) },
    ]),
  )
}
