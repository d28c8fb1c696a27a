/**
 * Accounts of a benchmark's own, for clients that the server is to know.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { loadTiers, type Tier } from '#infra/config/tiers.ts'
import { databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import type { BenchPlatform } from './bench-platform.ts'

const MAKERS = 4
const PLENTY = 1_000_000_000

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

/** The environment of a role with the tiers as built in, but for the highest, whose keys may ask as often as they like. */
export function withoutLimits({ config }: BenchPlatform): { MARKETLOG_TIERS: string } {
  const { quant, ...others } = loadTiers()
  const file = join(config.stateDir, 'open-tiers.json')
  const open = { requests_per_minute: PLENTY, requests_per_month: PLENTY, expensive_requests_per_minute: PLENTY }
  const streams = { prices_stream_starts_per_day: PLENTY, bids_stream_starts_per_day: PLENTY }
  writeFileSync(file, JSON.stringify({ ...others, quant: { ...quant, ...open, ...streams } }))
  return { MARKETLOG_TIERS: file }
}
