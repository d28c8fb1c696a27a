/**
 * API keys as they are stored, and as their account lists and exports them.
 *
 * Reads api_keys, writes nothing. A key that is not an active child of the asking account is not found, so ids reveal
 * nothing.
 */
import { HttpError } from '#infra/http/http-error.ts'
import { type Database, readPage, slicesById } from '#infra/postgres/pool.ts'
import type { Scope } from '#schemas/api/scopes.ts'
import type { KeyKind } from '../access/reader.ts'
import { accountGone } from '../reader.ts'

/** A key as it is stored; moments are ISO 8601. */
export interface StoredKey {
  id: string
  kind: KeyKind
  name: string | null
  rootKeyId: string
  /** Its limits are counted for it: keys/commands.ts. */
  lineageId: string
  createdAt: string
  lastUsedAt: string | null
  expiresAt: string | null
  revokedAt: string | null
  quotaPerMonthOverride: number | null
  ratePerMinuteOverride: number | null
  /** A child key is confined to them; null = to nothing. */
  scopes: Scope[] | null
}

export const LINEAGE = 'coalesce(k.lineage_id, k.id)'

export const KEY_COLUMNS = `k.id, k.kind, k.name, k.root_key_id AS "rootKeyId", ${LINEAGE} AS "lineageId", k.created_at AS "createdAt",
  k.last_used_at AS "lastUsedAt", k.expires_at AS "expiresAt", k.revoked_at AS "revokedAt",
  k.quota_requests_per_month_override AS "quotaPerMonthOverride", k.rate_requests_per_minute_override AS "ratePerMinuteOverride",
  k.scopes`

/** There is no such active key of this account; a key of another account is not revealed. */
export const keyNotFound = (): HttpError =>
  new HttpError('KEY_NOT_FOUND', 'This account has no active key with this id.')

/** Reads the key that asks. */
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
): Promise<{ rows: StoredKey[]; total: number }> => {
  const source = `api_keys k WHERE ${ACTIVE_CHILD}`
  return readPage(
    rows,
    { columns: KEY_COLUMNS, source, order: 'k.created_at, k.id' },
    [accountId, new Date(page.now)],
    page,
  )
}

export async function readChildKey(
  database: Database,
  accountId: string,
  keyId: string,
  now: number,
): Promise<StoredKey> {
  const [key] = await database.rows<StoredKey>(
    `SELECT ${KEY_COLUMNS} FROM api_keys k WHERE ${ACTIVE_CHILD} AND k.id = $3`,
    [accountId, new Date(now), keyId],
  )
  if (!key) throw keyNotFound()
  return key
}
