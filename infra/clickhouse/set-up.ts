/**
 * Creates the database and its tables where they are missing.
 *
 * Writes definitions only. Invariant: running it again changes nothing; it never alters or drops a
 * table. The one caller is the set-up step, before any role starts.
 */
import type { ClickhouseWriter } from './clickhouse.ts'
import { createTable, type Table } from './table.ts'

/** Creates what is missing of the writer's database and of the tables in it. */
export async function setUpClickhouse(writer: ClickhouseWriter, tables: readonly Table[]): Promise<void> {
  await writer.command(`CREATE DATABASE IF NOT EXISTS ${writer.database}`)
  for (const table of tables) await writer.command(createTable(writer.database, table))
}
