import { databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { databaseName, type PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { readAllRules, readAllTriggers } from '#services/alerts/rules/reader.ts'
import type { StoredAlerts } from '#streams/alert-triggers/view.ts'

/** Lends the tables of alerts to a comparison. */
export async function withStoredAlerts<T>(
  { config, log }: { config: PlatformConfig; log: Log },
  use: (stored: StoredAlerts) => Promise<T>,
): Promise<T> {
  const url = databaseUrl(config.servers.postgres, databaseName(config.namespace))
  const database = openDatabase(url, { name: 'verify', log })
  try {
    return await use({
      rules: take => readAllRules(database, take),
      triggers: take => readAllTriggers(database, take),
    })
  } finally {
    await database.close()
  }
}
