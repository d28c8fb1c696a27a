/**
 * Accounts and keys from the command line: one key of each tier for a platform on this machine, and `keys create`.
 *
 * Writes accounts through services/accounts and the keys' texts to the run directory, readable to its owner alone.
 * The keys stay the same from start to start while the database knows them.
 */
import { TIERS, type Tier } from '#infra/config/tiers.ts'
import { type Database, databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { databaseName, type PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { readJson } from '#infra/stack/processes.ts'
import { openKeyDirectory } from '#services/accounts/access/reader.ts'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import { linkPlatformAccount } from '#services/accounts/sign-in/commands.ts'
import { STAND_IN, STAND_IN_PATH } from '#services/inventory/main.ts'
import { type RunDirectory, writePrivate } from './run-directory.ts'

/** Lends the platform's database to a command. */
export async function withDatabase<T>(
  config: PlatformConfig,
  log: Log,
  work: (database: Database) => Promise<T>,
): Promise<T> {
  const url = databaseUrl(config.servers.postgres, databaseName(config.namespace))
  const database = openDatabase(url, { name: 'command-line', log, connections: 1 })
  try {
    return await work(database)
  } finally {
    await database.close()
  }
}

/** One working key of each tier, kept from earlier starts where the database still accepts them. */
export async function provideKeys(
  config: PlatformConfig,
  log: Log,
  { keysFile }: RunDirectory,
): Promise<Record<Tier, string>> {
  return withDatabase(config, log, async database => {
    const earlier = readJson<Partial<Record<Tier, string>>>(keysFile) ?? {}
    const keyDirectory = openKeyDirectory(database)
    const keys = {} as Record<Tier, string>
    for (const tier of TIERS) {
      const key = earlier[tier]
      const answer = key === undefined ? undefined : await keyDirectory.authenticate(`Bearer ${key}`)
      if (key !== undefined && answer?.accepted && answer.credential.tier === tier) keys[tier] = key
      else keys[tier] = (await createAccountWithKey(database, { tier, name: `${tier} of this machine` })).key
    }
    writePrivate(keysFile, keys)
    return keys
  })
}

/** Links the stand-in's account to a key's account, so that there is an inventory to read; a real platform is not touched. */
export async function linkStandIn(config: PlatformConfig, log: Log, key: string): Promise<void> {
  if (!config.inventoryUrl?.endsWith(STAND_IN_PATH)) return
  await withDatabase(config, log, async database => {
    const answer = await openKeyDirectory(database).authenticate(`Bearer ${key}`)
    if (answer.accepted) await linkPlatformAccount(database, answer.credential.accountId, STAND_IN.full)
  })
}

/** Creates an account and prints its key, once: JSON in a pipe, a sentence on a terminal. */
export async function createKey(
  config: PlatformConfig,
  log: Log,
  options: { tier: Tier; name?: string; email?: string },
  output: NodeJS.WriteStream,
): Promise<void> {
  const created = await withDatabase(config, log, database => createAccountWithKey(database, options))
  if (!output.isTTY) output.write(`${JSON.stringify({ ...created, tier: options.tier })}\n`)
  else
    output.write(`${created.key}\n\nA ${options.tier} key of account ${created.account_id}. It is shown this once.\n`)
}
