/** Creates a database and tables in it where they are missing; a repeat changes nothing. */
import { Refused } from '../runtime/refused.ts'
import type { ClickhouseWriter } from './clickhouse.ts'
import { createTable, onCluster, type Table } from './table.ts'

/** Creates what is missing of the writer's database and of the tables in it. */
export async function setUpClickhouse(writer: ClickhouseWriter, tables: readonly Table[]): Promise<void> {
  const { database, cluster } = writer
  if (cluster !== undefined) await expectOneShard(writer, cluster)
  await writer.command(`CREATE DATABASE IF NOT EXISTS ${database}${onCluster(cluster)}`)
  for (const table of tables) await writer.command(createTable(database, table, cluster))
}

/** Throws where the database has a table of one of these names: they are of an earlier form, which no release had. */
export async function refuseFormer(writer: ClickhouseWriter, names: readonly string[]): Promise<void> {
  const [found] = await writer.rows<{ name: string }>(
    'SELECT name FROM system.tables WHERE database = {database:String} AND has({names:Array(String)}, name)',
    { database: writer.database, names },
  )
  if (found)
    throw new Refused(
      `${found.name} in ClickHouse is of an earlier form of the platform, whose data cannot be taken over: \`make clean\` wipes all of it`,
    )
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
