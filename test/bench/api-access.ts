/**
 * Access to the platform's API for benchmarks: a key of the highest tier.
 */
import { databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import type { BenchPlatform } from './bench-platform.ts'

/** Creates an account and returns its key. */
export async function newKey({ config, log }: BenchPlatform): Promise<string> {
  const url = databaseUrl(config.servers.postgres, databaseName(config.namespace))
  const database = openDatabase(url, { name: 'bench', log, connections: 1 })
  try {
    return (await createAccountWithKey(database, { tier: 'quant', name: 'bench' })).key
  } finally {
    await database.close()
  }
}
