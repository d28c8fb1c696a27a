/**
 * API keys as they are stored, and as their account lists and exports them.
 *
 * Reads api_keys, writes nothing. A key that is not an active child of the asking account is not found, so ids reveal
 * nothing.
 */
import { HttpError } from '#infra/http/http-error.ts'
import { type Database, type Query, readPage, slicesById } from '#infra/postgres/pool.ts'
import type { KeyInfo } from '#schemas/api/account-keys.ts'
import type { KeyKind } from '../access/reader.ts'
import { accountGone } from '../reader.ts'

/** A key as it is stored: its public members, but for those that depend on its tier and the moment. */
export interface StoredKey
  extends Pick<
    KeyInfo,
    | 'id'
    | 'name'
    | 'root_key_id'
    | 'created_at'
    | 'last_used_at'
    | 'expires_at'
    | 'quota_requests_per_month_override'
    | 'rate_requests_per_minute_override'
    | 'scopes'
  > {
  kind: KeyKind
  /** Its limits are counted for it: keys/commands.ts. */
  lineage_id: string
  revoked_at: string | null
}

export const LINEAGE = 'coalesce(k.lineage_id, k.id)'

export const KEY_COLUMNS = `k.id, k.kind, k.name, k.root_key_id, ${LINEAGE} AS lineage_id, k.created_at, k.last_used_at, k.expires_at,
  k.revoked_at, k.quota_requests_per_month_override, k.rate_requests_per_minute_override, k.scopes`

export async function readKey(database: Database, keyId: string): Promise<StoredKey> {
  const [key] = await database.rows<StoredKey>(`SELECT ${KEY_COLUMNS} FROM api_keys k WHERE k.id = $1`, [keyId])
  if (!key) throw accountGone()
  return key
}

/** The keys of an account by id, those that were revoked too. */
export const keySlices = (database: Database, accountId: string) =>
  slicesById<StoredKey>(database.rows, `SELECT ${KEY_COLUMNS} FROM api_keys k WHERE k.account_id = $1`, [accountId])

/** Of one account, at one moment. */
export const ACTIVE_CHILD = `k.kind = 'child' AND k.account_id = $1 AND k.revoked_at IS NULL
  AND (k.expires_at IS NULL OR k.expires_at > $2)`

/** A page of active child keys, oldest first, and how many there are. */
export const listChildKeys = (
  { rows }: Database,
  accountId: string,
  page: { limit: number; offset: number; now: number },
) => {
  const from = { columns: KEY_COLUMNS, source: `api_keys k WHERE ${ACTIVE_CHILD}`, order: 'k.created_at, k.id' }
  return readPage<StoredKey>(rows, from, [accountId, new Date(page.now)], page)
}

/** `lock` is the clause by which a transaction locks it. */
export async function readChildKey(
  query: Query,
  { accountId, keyId, now }: { accountId: string; keyId: string; now: number },
  lock = '',
): Promise<StoredKey> {
  const [key] = await query<StoredKey>(
    `SELECT ${KEY_COLUMNS} FROM api_keys k WHERE ${ACTIVE_CHILD} AND k.id = $3 ${lock}`,
    [accountId, new Date(now), keyId],
  )
  if (!key) throw new HttpError('KEY_NOT_FOUND', 'This account has no active key with this id.')
  return key
}
