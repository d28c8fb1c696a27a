/**
 * Creates the database and its tables where they are missing.
 *
 * Writes definitions only. Invariant: running it again changes nothing; it never alters or drops a
 * table. The one caller is the set-up step, before any role starts.
 */
import { allTables } from '#schemas/views/clickhouse/all-tables.ts'
import type { ClickhouseWriter } from './clickhouse.ts'

/** Creates what is missing of the writer's database. */
export async function setUpClickhouse(writer: ClickhouseWriter): Promise<void> {
  await writer.command(`CREATE DATABASE IF NOT EXISTS ${writer.database}`)
  for (const statement of allTables(writer.database)) await writer.command(statement)
}
