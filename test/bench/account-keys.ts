/** Accounts of a benchmark's own, for clients that the server is to know. */
import type { Tier } from '#infra/config/tiers.ts'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import { writeRoomyTiers } from '#test/harness/roomy-tiers.ts'
import { type BenchPlatform, withDatabase } from './bench-platform.ts'

const MAKERS = 4

/** A key of the highest tier. */
export const newKey = async (platform: BenchPlatform): Promise<string> => (await makeKeys(platform, 1))[0] as string

/** Makes as many keys, each of an account of its own. */
export const makeKeys = (platform: BenchPlatform, count: number, tier: Tier = 'quant'): Promise<string[]> =>
  withDatabase(platform, { connections: MAKERS }, async database => {
    const keys: string[] = []
    const make = async (): Promise<void> => {
      while (keys.length < count) {
        const at = keys.push('') - 1
        keys[at] = (await createAccountWithKey(database, { tier })).key
      }
    }
    await Promise.all(Array.from({ length: MAKERS }, make))
    return keys
  })

/** The environment of a role with the tiers as built in, but for the highest, whose keys may ask as often as they like. */
export const withoutLimits = ({ config }: BenchPlatform): { MARKETLOG_TIERS: string } => ({
  MARKETLOG_TIERS: writeRoomyTiers(config.stateDir, { streamStarts: 'unlimited', onlyHighest: true }),
})
