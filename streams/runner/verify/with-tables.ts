import { type ClickhouseReader, openReader } from '#infra/clickhouse/clickhouse.ts'
import { databaseName } from '#infra/runtime/config.ts'
import type { VerifyTask } from '../view.ts'
import { openWholeTables } from '../whole-tables.ts'

/** Reads the platform's tables for as long as a comparison works. */
export async function withTables<T>(
  { config }: VerifyTask,
  work: (tables: ClickhouseReader) => Promise<T>,
): Promise<T> {
  const database = databaseName(config.namespace)
  const tables = openWholeTables(openReader(config.servers.clickhouseReadOnly, { database, name: 'marketlog-verify' }))
  try {
    return await work(tables)
  } finally {
    await tables.close()
  }
}
