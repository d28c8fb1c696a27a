/**
 * Creates accounts with their root keys, for the operator of the platform.
 *
 * Writes the tables accounts and api_keys in one transaction. Invariant: the plaintext exists only in the returned
 * value; the table holds its SHA-256. The address counts as verified: the operator vouches for it.
 */
import type { Tier } from '#infra/config/tiers.ts'
import type { Database } from '#infra/postgres/pool.ts'
import { insertKey } from './keys.ts'

/** A new account and the only copy of its key's text. */
export interface CreatedAccount {
  account_id: string
  key_id: string
  key: string
}

/** Address of accounts that were made without one; no mail reaches it (RFC 6761, 6.3). */
export const LOCAL_ADDRESS = 'account@marketlog.localhost'

/** Creates an account of a tier and its root key; `email` is taken as verified, null leaves it without one. */
export function createAccountWithKey(
  database: Database,
  options: { tier: Tier; name?: string; email?: string | null; expiresAt?: number },
): Promise<CreatedAccount> {
  const { tier, name = null, email = LOCAL_ADDRESS, expiresAt } = options
  return database.transaction(async query => {
    const [account] = await query<{ id: string; created_at: Date }>(
      `INSERT INTO accounts (tier, name, email, email_verified_at)
       VALUES ($1, $2, $3::text, CASE WHEN $3::text IS NOT NULL THEN now() END) RETURNING id, created_at`,
      [tier, name, email],
    )
    if (!account) throw new Error('the database returned no account')
    const now = account.created_at.getTime()
    const { key, text } = await insertKey(query, { accountId: account.id, kind: 'root', now, expiresAt })
    return { account_id: account.id, key_id: key.id, key: text }
  })
}

/** Links an account on the game's platform to an account that has none. */
export async function linkPlatformAccount(database: Database, accountId: string, platformId: string): Promise<void> {
  await database.rows(
    'INSERT INTO platform_links (account_id, platform_id, linked_at) VALUES ($1, $2, now()) ON CONFLICT DO NOTHING',
    [accountId, platformId],
  )
}

/** Gives accounts of earlier versions, which have no address, the local one. */
export async function completeAccount(database: Database, accountId: string): Promise<void> {
  await database.rows('UPDATE accounts SET email = $2, email_verified_at = now() WHERE id = $1 AND email IS NULL', [
    accountId,
    LOCAL_ADDRESS,
  ])
}
