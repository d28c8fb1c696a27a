/**
 * Accounts of a benchmark's own, for clients that the server is to know.
 */
import type { Tier } from '#infra/config/tiers.ts'
import { databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import type { BenchPlatform } from './bench-platform.ts'

const MAKERS = 4

/** A key of the highest tier. */
export const newKey = async (platform: BenchPlatform): Promise<string> => (await makeKeys(platform, 1))[0] as string

/** Makes as many keys, each of an account of its own. */
export async function makeKeys({ config, log }: BenchPlatform, count: number, tier: Tier = 'quant'): Promise<string[]> {
  const url = databaseUrl(config.servers.postgres, databaseName(config.namespace))
  const database = openDatabase(url, { name: 'bench', log, connections: MAKERS })
  const keys: string[] = []
  const make = async (): Promise<void> => {
    while (keys.length < count) {
      const at = keys.push('') - 1
      keys[at] = (await createAccountWithKey(database, { tier })).key
    }
  }
  try {
    await Promise.all(Array.from({ length: MAKERS }, make))
    return keys
  } finally {
    await database.close()
  }
}
