/**
 * Creates accounts with their root keys.
 *
 * Writes the tables accounts and api_keys in one transaction. Invariant: the plaintext exists only in
 * the returned value; the table holds its SHA-256.
 */
import type { Tier } from '#infra/config/tiers.ts'
import { hashOfKey, newKeyText } from '#infra/postgres/key-text.ts'
import type { Database } from '#infra/postgres/pool.ts'

/** A new account and the only copy of its key's text. */
export interface CreatedAccount {
  account_id: string
  key_id: string
  key: string
}

/** Creates an account of a tier and its root key. */
export async function createAccountWithKey(
  database: Database,
  options: { tier: Tier; name?: string },
): Promise<CreatedAccount> {
  const key = newKeyText('root')
  return database.transaction(async query => {
    const [account] = await query<{ id: string }>('INSERT INTO accounts (tier, name) VALUES ($1, $2) RETURNING id', [
      options.tier,
      options.name ?? null,
    ])
    if (!account) throw new Error('the database returned no account')
    const keyId = crypto.randomUUID()
    await query(
      `INSERT INTO api_keys (id, account_id, kind, root_key_id, hash) VALUES ($1, $2, 'root', $1, decode($3, 'hex'))`,
      [keyId, account.id, hashOfKey(key)],
    )
    return { account_id: account.id, key_id: keyId, key }
  })
}
