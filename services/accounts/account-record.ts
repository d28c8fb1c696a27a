/**
 * What an account may see of itself.
 *
 * Reads accounts and platform_links. Must not return anything of another account.
 */
import type { Database } from '#infra/postgres/pool.ts'

/** An account; times in milliseconds since the epoch. */
export interface AccountRecord {
  id: string
  name: string | null
  tier: string
  createdAt: number
  email: string | null
  isEmailVerified: boolean
  platformId: string | null
}

/** Reads an account. */
export async function readAccount(database: Database, accountId: string): Promise<AccountRecord> {
  const [row] = await database.rows<{
    name: string | null
    tier: string
    created_at: Date
    email: string | null
    is_verified: boolean
    platform_id: string | null
  }>(
    `SELECT a.name, a.tier, a.created_at, a.email, a.email_verified_at IS NOT NULL AS is_verified, p.platform_id
     FROM accounts a LEFT JOIN platform_links p ON p.account_id = a.id WHERE a.id = $1`,
    [accountId],
  )
  if (!row) throw new Error('the account of an accepted key is gone')
  return {
    ...{ id: accountId, name: row.name, tier: row.tier, createdAt: row.created_at.getTime() },
    ...{ email: row.email, isEmailVerified: row.is_verified, platformId: row.platform_id },
  }
}
