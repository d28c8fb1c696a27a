/**
 * Root keys: what is stored of them, and their one transition, reissue.
 *
 * Reads and writes api_keys. States: active -> revoked | expired. Invariant: an account has one active root key;
 * the account's row is locked first, so of two changes of its keys one sees the other. The text of a key exists
 * only in the returned value.
 */
import type { Credential } from '#infra/postgres/key-directory.ts'
import { hashOfKey, type KeyKind, newKeyText } from '#infra/postgres/key-text.ts'
import type { Database, Query } from '#infra/postgres/pool.ts'
import { Refusal } from '#schemas/api/refusal.ts'

/** Who asks for a change: an accepted root key, or a session. */
export type Actor = Pick<Credential, 'kind' | 'keyId' | 'accountId'>

/** A key as it is stored; times in milliseconds since the epoch. */
export interface StoredKey {
  id: string
  kind: KeyKind
  name: string | null
  rootKeyId: string
  createdAt: number
  lastUsedAt: number | null
  expiresAt: number | null
  quotaPerMonthOverride: number | null
  ratePerMinuteOverride: number | null
}

/** A key and the only copy of its text. */
export interface IssuedKey {
  text: string
  key: StoredKey
}

/** A row of {@link KEY_COLUMNS}. */
export interface KeyRow {
  id: string
  kind: KeyKind
  name: string | null
  root_key_id: string
  created_at: Date
  last_used_at: Date | null
  expires_at: Date | null
  quota: number | null
  rate: number | null
}

/** The columns of a stored key. */
export const KEY_COLUMNS = `k.id, k.kind, k.name, k.root_key_id, k.created_at, k.last_used_at, k.expires_at,
  k.quota_requests_per_month_override AS quota, k.rate_requests_per_minute_override AS rate`

/** The stored key of a row. */
export const keyOfRow = (row: KeyRow): StoredKey => ({
  id: row.id,
  kind: row.kind,
  name: row.name,
  rootKeyId: row.root_key_id,
  createdAt: row.created_at.getTime(),
  lastUsedAt: row.last_used_at?.getTime() ?? null,
  expiresAt: row.expires_at?.getTime() ?? null,
  quotaPerMonthOverride: row.quota,
  ratePerMinuteOverride: row.rate,
})

/** There is no such active key of this account; a key of another account is not revealed. */
export const keyNotFound = (): Refusal => new Refusal('KEY_NOT_FOUND', 'This account has no active key with this id.')

/** Reads one key. */
export async function readKey(database: Database, keyId: string): Promise<StoredKey> {
  const [row] = await database.rows<KeyRow>(`SELECT ${KEY_COLUMNS} FROM api_keys k WHERE k.id = $1`, [keyId])
  if (!row) throw keyNotFound()
  return keyOfRow(row)
}

/** Replaces the root key and revokes all child keys; needs a verified e-mail. */
export function reissueRootKey(database: Database, actor: Actor, now: number): Promise<IssuedKey> {
  return database.transaction(async query => {
    await lockForIssue(query, actor)
    await query('UPDATE api_keys SET revoked_at = $2 WHERE account_id = $1 AND revoked_at IS NULL', [
      actor.accountId,
      new Date(now),
    ])
    return insertKey(query, { accountId: actor.accountId, kind: 'root', now })
  })
}

/** Locks the account for a change of its keys; refuses an actor whose own key was revoked meanwhile. */
export async function lockAccount(query: Query, actor: Actor): Promise<{ rootKeyId: string; isVerified: boolean }> {
  const [account] = await query<{ is_verified: boolean }>(
    'SELECT email_verified_at IS NOT NULL AS is_verified FROM accounts WHERE id = $1 FOR NO KEY UPDATE',
    [actor.accountId],
  )
  const [root] = await query<{ id: string }>(
    `SELECT id FROM api_keys WHERE account_id = $1 AND kind = 'root' AND revoked_at IS NULL`,
    [actor.accountId],
  )
  if (!account || !root || (actor.kind === 'key' && root.id !== actor.keyId)) {
    throw new Refusal('AUTH_API_KEY_REVOKED', 'This API key was revoked; use the key that replaced it.')
  }
  return { rootKeyId: root.id, isVerified: account.is_verified }
}

/** Locks the account for issuing a key, which needs a verified e-mail. */
export async function lockForIssue(query: Query, actor: Actor): Promise<{ rootKeyId: string }> {
  const { rootKeyId, isVerified } = await lockAccount(query, actor)
  if (isVerified) return { rootKeyId }
  const detail = 'Keys are issued to accounts with a verified e-mail address; see POST /account/email.'
  throw new Refusal('EMAIL_NOT_VERIFIED', detail)
}

/** What a new key needs. */
export interface NewKey {
  accountId: string
  kind: KeyKind
  now: number
  /** Of a child. */
  rootKeyId?: string
  name?: string | null
  expiresAt?: number | null
  quotaPerMonthOverride?: number | null
  ratePerMinuteOverride?: number | null
}

/** Draws a key and stores its hash. */
export async function insertKey(query: Query, made: NewKey): Promise<IssuedKey> {
  const text = newKeyText(made.kind)
  const id = crypto.randomUUID()
  const [row] = await query<KeyRow>(
    `INSERT INTO api_keys AS k (id, account_id, kind, root_key_id, hash, name, created_at, expires_at,
       quota_requests_per_month_override, rate_requests_per_minute_override)
     VALUES ($1, $2, $3, $4, decode($5, 'hex'), $6, $7, $8, $9, $10) RETURNING ${KEY_COLUMNS}`,
    [
      ...[id, made.accountId, made.kind, made.rootKeyId ?? id, hashOfKey(text), made.name ?? null],
      ...[new Date(made.now), made.expiresAt == null ? null : new Date(made.expiresAt)],
      ...[made.quotaPerMonthOverride ?? null, made.ratePerMinuteOverride ?? null],
    ],
  )
  return { text, key: keyOfRow(row as KeyRow) }
}
