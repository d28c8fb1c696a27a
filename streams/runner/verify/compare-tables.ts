import { openReader } from '#infra/clickhouse/clickhouse.ts'
import { databaseName } from '#infra/runtime/config.ts'
import type { CompareTables, VerifyTask } from '../view.ts'
import type { Findings } from './findings.ts'

/** Runs a comparison with a reader of the platform's tables. */
export async function compareTables(task: VerifyTask, compare: CompareTables): Promise<Findings> {
  const { servers, namespace } = task.config
  const tables = openReader(servers.clickhouseReadOnly, { database: databaseName(namespace), name: 'marketlog-verify' })
  try {
    return await compare(task, tables)
  } finally {
    await tables.close()
  }
}
