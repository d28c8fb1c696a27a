/** Accounts from the command line: `keys create`, `audit`, and one key of each tier for a platform on this machine. */
import { TIERS, type Tier } from '#infra/config/tiers.ts'
import { type Database, databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { databaseName, type PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { readJson } from '#infra/stack/processes.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { openKeyDirectory } from '#services/accounts/access/reader.ts'
import { AUDIT_KINDS, type AuditKind, readAuditLog } from '#services/accounts/audit/reader.ts'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import { linkPlatformAccount } from '#services/accounts/sign-in/commands.ts'
import { STAND_IN, STAND_IN_PATH } from '#services/inventory/main.ts'
import { CommandFailure, exitCodes } from './command-failure.ts'
import { type CommandContext, write, writeResults } from './output.ts'
import { type RunDirectory, writePrivate } from './run-directory.ts'

const AUDIT_ENTRIES_MAX = 100_000
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

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

/**
 * One working key of each tier, kept from earlier starts where the database still accepts them. The stand-in's account is linked to
 * the highest, so that there is an inventory to read; a real platform is not touched.
 */
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
    if (config.market !== 'empty' && config.inventoryUrl?.endsWith(STAND_IN_PATH)) {
      const answer = await keyDirectory.authenticate(`Bearer ${keys.quant}`)
      if (answer.accepted) await linkPlatformAccount(database, answer.credential.accountId, STAND_IN.full)
    }
    return keys
  })
}

/** Creates an account and prints its key, once: JSON in a pipe, a sentence on a terminal. */
export async function createKey(
  { config, log, output }: CommandContext,
  options: { tier: Tier; name?: string; email?: string },
): Promise<void> {
  const created = await withDatabase(config, log, database => createAccountWithKey(database, options))
  const sentence = `A ${options.tier} key of account ${created.account_id}. It is shown this once.`
  const text = output.isTTY ? `${created.key}\n\n${sentence}` : JSON.stringify({ ...created, tier: options.tier })
  await write(output, `${text}\n`)
}

export async function showAuditLog(
  { config, log, output }: CommandContext,
  options: { account?: string; kind?: string; days: number; limit: number; json?: boolean },
): Promise<void> {
  const { account, kind, days, limit } = options
  if (account !== undefined && !UUID.test(account)) {
    throw new CommandFailure(`${account} is no id of an account; GET /v1/account shows it`, exitCodes.usage)
  }
  if (kind !== undefined && !AUDIT_KINDS.includes(kind as AuditKind)) {
    throw new CommandFailure(`there is no kind ${kind}; the kinds are ${AUDIT_KINDS.join(', ')}`, exitCodes.usage)
  }
  const entries = await withDatabase(config, log, database =>
    readAuditLog(database, {
      accountId: account ?? null,
      kind: (kind as AuditKind) ?? null,
      since: Date.now() - days * DAY_MS,
      limit: Math.min(Math.ceil(limit), AUDIT_ENTRIES_MAX),
    }),
  )
  await writeResults(output, options, entries, [
    { head: 'at', cell: ({ at }) => at },
    { head: 'kind', cell: ({ kind }) => kind },
    { head: 'account', cell: ({ account_id }) => account_id },
    { head: 'address', cell: ({ address }) => address },
    { head: 'key', cell: ({ key_id }) => key_id, spare: true },
    { head: 'detail', cell: ({ detail }) => JSON.stringify(detail), spare: true },
  ])
}
