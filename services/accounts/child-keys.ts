/**
 * Child keys of an account's root key: created, changed, revoked, reissued.
 *
 * Reads and writes api_keys under the lock of the account's row (keys.ts). States: active -> revoked | expired.
 * Invariant: a root has no more active children than its tier allows; a key that is not an active child of the
 * asking account is not found, so ids reveal nothing. Overrides are bounded by the API's schema, and the enforced
 * limit is the lower of override and tier.
 */
import type { Database, Query } from '#infra/postgres/pool.ts'
import { Refusal } from '#schemas/api/refusal.ts'
import {
  type Actor,
  type IssuedKey,
  insertKey,
  KEY_COLUMNS,
  type KeyRow,
  keyNotFound,
  keyOfRow,
  lockAccount,
  lockForIssue,
  type StoredKey,
} from './keys.ts'

/** What a child key may be given; null removes a limit. */
export interface ChildKeyChanges {
  name?: string
  quotaPerMonthOverride?: number | null
  ratePerMinuteOverride?: number | null
}

/** Of one account, at one moment. */
const ACTIVE = `k.kind = 'child' AND k.account_id = $1 AND k.revoked_at IS NULL
  AND (k.expires_at IS NULL OR k.expires_at > $2)`

/** A page of active child keys, oldest first, and how many there are. */
export async function listChildKeys(
  database: Database,
  accountId: string,
  page: { limit: number; offset: number; now: number },
): Promise<{ keys: StoredKey[]; total: number }> {
  const scope = [accountId, new Date(page.now)]
  const rows = await database.rows<KeyRow>(
    `SELECT ${KEY_COLUMNS} FROM api_keys k WHERE ${ACTIVE} ORDER BY k.created_at, k.id LIMIT $3 OFFSET $4`,
    [...scope, page.limit, page.offset],
  )
  const [count] = await database.rows<{ total: number }>(
    `SELECT count(*)::int AS total FROM api_keys k WHERE ${ACTIVE}`,
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
  const [row] = await database.rows<KeyRow>(`SELECT ${KEY_COLUMNS} FROM api_keys k WHERE ${ACTIVE} AND k.id = $3`, [
    accountId,
    new Date(now),
    keyId,
  ])
  if (!row) throw keyNotFound()
  return keyOfRow(row)
}

/** Creates a child key; `most` is how many a root may have. */
export function createChildKey(
  database: Database,
  actor: Actor,
  child: ChildKeyChanges & { name: string },
  { most, now }: { most: number; now: number },
): Promise<IssuedKey> {
  const { accountId } = actor
  return database.transaction(async query => {
    const { rootKeyId } = await lockForIssue(query, actor)
    const [count] = await query<{ total: number }>(`SELECT count(*)::int AS total FROM api_keys k WHERE ${ACTIVE}`, [
      accountId,
      new Date(now),
    ])
    if ((count?.total ?? 0) >= most) {
      throw new Refusal('CHILD_KEY_LIMIT_REACHED', `A root key has ${most} child keys at most; delete one first.`)
    }
    return insertKey(query, { ...child, accountId, kind: 'child', rootKeyId, now })
  })
}

/** Changes name and limits of a child key. */
export function changeChildKey(
  database: Database,
  actor: Actor,
  keyId: string,
  { changes, now }: { changes: ChildKeyChanges; now: number },
): Promise<StoredKey> {
  return database.transaction(async query => {
    const before = await lockChild(query, actor, keyId, now)
    const { name, quotaPerMonthOverride: quota, ratePerMinuteOverride: rate } = changes
    const [row] = await query<KeyRow>(
      `UPDATE api_keys k SET name = $2, quota_requests_per_month_override = $3, rate_requests_per_minute_override = $4
       WHERE k.id = $1 RETURNING ${KEY_COLUMNS}`,
      [
        ...[keyId, name ?? before.name],
        ...[quota === undefined ? before.quotaPerMonthOverride : quota],
        ...[rate === undefined ? before.ratePerMinuteOverride : rate],
      ],
    )
    return keyOfRow(row as KeyRow)
  })
}

/** Revokes a child key; its text is refused within a second everywhere. */
export function revokeChildKey(database: Database, actor: Actor, keyId: string, now: number): Promise<void> {
  return database.transaction(async query => {
    await lockChild(query, actor, keyId, now)
    await revoke(query, keyId, now)
  })
}

/** Replaces a child key by a new one of the same name, limits and expiry. */
export function reissueChildKey(database: Database, actor: Actor, keyId: string, now: number): Promise<IssuedKey> {
  return database.transaction(async query => {
    await lockForIssue(query, actor)
    const { id: _, createdAt, lastUsedAt, ...kept } = await lockChild(query, actor, keyId, now)
    await revoke(query, keyId, now)
    return insertKey(query, { ...kept, accountId: actor.accountId, now })
  })
}

async function lockChild(query: Query, actor: Actor, keyId: string, now: number): Promise<StoredKey> {
  await lockAccount(query, actor)
  const [row] = await query<KeyRow>(
    `SELECT ${KEY_COLUMNS} FROM api_keys k WHERE ${ACTIVE} AND k.id = $3 FOR NO KEY UPDATE`,
    [actor.accountId, new Date(now), keyId],
  )
  if (!row) throw keyNotFound()
  return keyOfRow(row)
}

const revoke = (query: Query, keyId: string, now: number): Promise<unknown> =>
  query('UPDATE api_keys SET revoked_at = $2 WHERE id = $1', [keyId, new Date(now)])
