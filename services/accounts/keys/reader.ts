/**
 * API keys as they are stored, and as their account lists and exports them.
 *
 * Reads api_keys, writes nothing. A key that is not an active child of the asking account is not found, so ids reveal
 * nothing.
 */
import { HttpError } from '#infra/http/http-error.ts'
import type { Database } from '#infra/postgres/pool.ts'
import { slicesById } from '#infra/postgres/slices.ts'
import type { Scope } from '#schemas/api/scopes.ts'
import type { KeyKind } from '../access/reader.ts'
import { accountGone } from '../reader.ts'
import { LINEAGE } from './lineages.ts'

/** A key as it is stored; times in milliseconds since the epoch. */
export interface StoredKey {
  id: string
  kind: KeyKind
  name: string | null
  rootKeyId: string
  /** What its limits are counted for. */
  lineageId: string
  createdAt: number
  lastUsedAt: number | null
  expiresAt: number | null
  revokedAt: number | null
  quotaPerMonthOverride: number | null
  ratePerMinuteOverride: number | null
  /** What a child key is confined to; null = nothing. */
  scopes: Scope[] | null
}

/** A row of {@link KEY_COLUMNS}. */
export interface KeyRow {
  id: string
  kind: KeyKind
  name: string | null
  root_key_id: string
  lineage_id: string
  created_at: Date
  last_used_at: Date | null
  expires_at: Date | null
  revoked_at: Date | null
  quota: number | null
  rate: number | null
  scopes: Scope[] | null
}

/** The columns of a stored key. */
export const KEY_COLUMNS = `k.id, k.kind, k.name, k.root_key_id, ${LINEAGE} AS lineage_id, k.created_at, k.last_used_at, k.expires_at,
  k.revoked_at, k.quota_requests_per_month_override AS quota, k.rate_requests_per_minute_override AS rate, k.scopes`

/** The stored key of a row. */
export const keyOfRow = (row: KeyRow): StoredKey => ({
  id: row.id,
  kind: row.kind,
  name: row.name,
  rootKeyId: row.root_key_id,
  lineageId: row.lineage_id,
  createdAt: row.created_at.getTime(),
  lastUsedAt: row.last_used_at?.getTime() ?? null,
  expiresAt: row.expires_at?.getTime() ?? null,
  revokedAt: row.revoked_at?.getTime() ?? null,
  quotaPerMonthOverride: row.quota,
  ratePerMinuteOverride: row.rate,
  scopes: row.scopes,
})

/** There is no such active key of this account; a key of another account is not revealed. */
export const keyNotFound = (): HttpError =>
  new HttpError('KEY_NOT_FOUND', 'This account has no active key with this id.')

/** Reads the key that asks. */
export async function readKey(database: Database, keyId: string): Promise<StoredKey> {
  const [row] = await database.rows<KeyRow>(`SELECT ${KEY_COLUMNS} FROM api_keys k WHERE k.id = $1`, [keyId])
  if (!row) throw accountGone()
  return keyOfRow(row)
}

/** The keys of an account by id, those that were revoked too. */
export async function* keySlices(database: Database, accountId: string): AsyncGenerator<StoredKey[]> {
  const select = `SELECT ${KEY_COLUMNS} FROM api_keys k WHERE k.account_id = $1`
  for await (const rows of slicesById<KeyRow>(database.rows, select, { values: [accountId] })) yield rows.map(keyOfRow)
}

/** Of one account, at one moment. */
export const ACTIVE_CHILD = `k.kind = 'child' AND k.account_id = $1 AND k.revoked_at IS NULL
  AND (k.expires_at IS NULL OR k.expires_at > $2)`

/** A page of active child keys, oldest first, and how many there are. */
export async function listChildKeys(
  database: Database,
  accountId: string,
  page: { limit: number; offset: number; now: number },
): Promise<{ keys: StoredKey[]; total: number }> {
  const scope = [accountId, new Date(page.now)]
  const rows = await database.rows<KeyRow>(
    `SELECT ${KEY_COLUMNS} FROM api_keys k WHERE ${ACTIVE_CHILD} ORDER BY k.created_at, k.id LIMIT $3 OFFSET $4`,
    [...scope, page.limit, page.offset],
  )
  const [count] = await database.rows<{ total: number }>(
    `SELECT count(*)::int AS total FROM api_keys k WHERE ${ACTIVE_CHILD}`,
    scope,
  )
  return { keys: rows.map(keyOfRow), total: count?.total ?? 0 }
}

/** Reads one active child key. */
export async function readChildKey(
  database: Database,
  accountId: string,
  keyId: string,
  now: number,
): Promise<StoredKey> {
  const [row] = await database.rows<KeyRow>(
    `SELECT ${KEY_COLUMNS} FROM api_keys k WHERE ${ACTIVE_CHILD} AND k.id = $3`,
    [accountId, new Date(now), keyId],
  )
  if (!row) throw keyNotFound()
  return keyOfRow(row)
}
