/**
 * Changes of API keys: accounts with their first key, the root key's reissue, and the child keys of a root.
 *
 * Writes api_keys, and accounts for new ones. States of a key: active -> revoked | expired. Invariant: an account has one
 * active root key, and a root no more active children than its tier allows; the account's row is locked first, so of two
 * changes of its keys one sees the other. The text of a key exists only in the returned value, the table holds its SHA-256;
 * 256 random bits need no salt. Overrides are bounded by the API's schema, and the enforced limit is the lower of override
 * and tier. Limits are counted for the lineage of a key, whichever key of it is in use: that of a root key is its account's, since
 * every root but the first goes on with it. A new child begins a lineage only when no ended one of the period is left, so within a
 * period an account never has more lineages than it had children at a time, and deleting and making keys yields nothing.
 */
import { randomBytes } from 'node:crypto'
import type { z } from 'zod'
import type { Tier } from '#infra/config/tiers.ts'
import type { Credential } from '#infra/http/credential.ts'
import { HttpError } from '#infra/http/http-error.ts'
import { countRows, type Database, type Query } from '#infra/postgres/pool.ts'
import type { childKeyPatch } from '#schemas/api/account-keys.ts'
import { DAY_MS, formatInstant } from '#schemas/values/instant.ts'
import { hashOfKey, type KeyKind } from '../access/reader.ts'
import { type Origin, recordAction } from '../audit/commands.ts'
import { LOCAL_ADDRESS, lockForOwner } from '../commands.ts'
import { ACTIVE_CHILD, KEY_COLUMNS, LINEAGE, readChildKey, type StoredKey } from './reader.ts'

type Actor = Pick<Credential, 'kind'> & Origin

/** A key and the only copy of its text. */
export type IssuedKey = Awaited<ReturnType<typeof insertKey>>

/** Replaces the root key and revokes all child keys; needs a verified e-mail. */
export function reissueRootKey(database: Database, actor: Actor, now: number): Promise<IssuedKey> {
  return database.transaction(async query => {
    const { lineage_id } = await lockActor(query, actor, { issues: true })
    await query('UPDATE api_keys SET revoked_at = $2 WHERE account_id = $1 AND revoked_at IS NULL', [
      actor.accountId,
      new Date(now),
    ])
    const issued = await insertKey(query, { accountId: actor.accountId, kind: 'root', lineage_id, now })
    await recordAction(query, actor, { kind: 'key.reissued', at: now, detail: { issued_key_id: issued.key.id } })
    return issued
  })
}

/**
 * Locks the account for a change of its keys, and returns its root key; refuses an actor whose own key or session has ended meanwhile.
 * A key is issued to a verified e-mail alone.
 */
async function lockActor(query: Query, actor: Actor, { issues }: { issues: boolean }) {
  const { isEmailVerified } = await lockForOwner(query, actor)
  const [root] = await query<Pick<StoredKey, 'root_key_id' | 'lineage_id'>>(
    `SELECT k.root_key_id, ${LINEAGE} AS lineage_id FROM api_keys k
     WHERE k.account_id = $1 AND k.kind = 'root' AND k.revoked_at IS NULL`,
    [actor.accountId],
  )
  if (!root || (actor.kind === 'key' && root.root_key_id !== actor.keyId)) {
    throw new HttpError('AUTH_API_KEY_REVOKED', 'This API key was revoked; use the key that replaced it.')
  }
  if (!issues || isEmailVerified) return root
  const detail = 'Keys are issued to accounts with a verified e-mail address; see POST /account/email.'
  throw new HttpError('EMAIL_NOT_VERIFIED', detail)
}

/** Without a lineage, or a root, it begins one. */
export async function insertKey(
  query: Query,
  key: Partial<StoredKey> & { accountId: string; kind: KeyKind; now: number },
): Promise<{ text: string; key: StoredKey }> {
  const text = newKeyText(key.kind)
  const id = crypto.randomUUID()
  const [row] = await query<StoredKey>(
    `INSERT INTO api_keys AS k (id, account_id, kind, root_key_id, hash, name, created_at, expires_at,
       quota_requests_per_month_override, rate_requests_per_minute_override, lineage_id, scopes)
     VALUES ($1, $2, $3, $4, decode($5, 'hex'), $6, $7, $8, $9, $10, $11, $12) RETURNING ${KEY_COLUMNS}`,
    [
      ...[id, key.accountId, key.kind, key.root_key_id ?? id, hashOfKey(text), key.name ?? null],
      ...[new Date(key.now), key.expires_at ?? null, key.quota_requests_per_month_override ?? null],
      ...[key.rate_requests_per_minute_override ?? null, key.lineage_id ?? id, key.scopes ?? null],
    ],
  )
  return { text, key: row as StoredKey }
}

/** Changes of a child key; null removes a limit, and the scopes. */
type ChildKeyChanges = z.infer<ReturnType<typeof childKeyPatch>>

/** Creates a child key; `most` is how many a root may have, `usedOf` counts the requests of the month by lineage. */
export function createChildKey(
  database: Database,
  actor: Actor,
  child: ChildKeyChanges,
  { most, now, usedOf }: { most: number; now: number; usedOf(lineageIds: readonly string[]): Promise<number[]> },
): Promise<IssuedKey> {
  const { accountId } = actor
  return database.transaction(async query => {
    const { root_key_id } = await lockActor(query, actor, { issues: true })
    if ((await countRows(query, `api_keys k WHERE ${ACTIVE_CHILD}`, [accountId, new Date(now)])) >= most) {
      throw new HttpError('CHILD_KEY_LIMIT_REACHED', `A root key has ${most} child keys at most; delete one first.`)
    }
    const lineage_id = await lineageToInherit(query, accountId, { now, usedOf })
    const issued = await insertKey(query, { ...child, accountId, kind: 'child', root_key_id, lineage_id, now })
    const detail = { child_key_id: issued.key.id, scopes: issued.key.scopes }
    await recordAction(query, actor, { kind: 'child_key.created', at: now, detail })
    return issued
  })
}

export function changeChildKey(
  database: Database,
  actor: Actor,
  keyId: string,
  { changes, now }: { changes: ChildKeyChanges; now: number },
): Promise<StoredKey> {
  return database.transaction(async query => {
    const before = await lockChild(query, actor, keyId, now)
    const members = Object.entries(changes).filter(([, value]) => value !== undefined)
    const after: StoredKey = { ...before, ...Object.fromEntries(members) }
    const [key] = await query<StoredKey>(
      `UPDATE api_keys k SET name = $2, quota_requests_per_month_override = $3, rate_requests_per_minute_override = $4,
         scopes = $5
       WHERE k.id = $1 RETURNING ${KEY_COLUMNS}`,
      [
        ...[keyId, after.name, after.quota_requests_per_month_override],
        ...[after.rate_requests_per_minute_override, after.scopes],
      ],
    )
    const detail = { child_key_id: keyId, scopes_before: before.scopes, scopes: key?.scopes }
    await recordAction(query, actor, { kind: 'child_key.changed', at: now, detail })
    return key as StoredKey
  })
}

/** Revokes a child key; its text is refused within a second everywhere. */
export function revokeChildKey(database: Database, actor: Actor, keyId: string, now: number): Promise<void> {
  return database.transaction(async query => {
    await lockChild(query, actor, keyId, now)
    await revoke(query, keyId, now)
    await recordAction(query, actor, { kind: 'child_key.revoked', at: now, detail: { child_key_id: keyId } })
  })
}

/** Replaces a child key by a new one of the same name, limits and expiry. */
export function reissueChildKey(database: Database, actor: Actor, keyId: string, now: number): Promise<IssuedKey> {
  return database.transaction(async query => {
    await lockActor(query, actor, { issues: true })
    const child = await lockChild(query, actor, keyId, now)
    await revoke(query, keyId, now)
    const issued = await insertKey(query, { ...child, accountId: actor.accountId, now })
    const detail = { child_key_id: keyId, issued_key_id: issued.key.id }
    await recordAction(query, actor, { kind: 'child_key.reissued', at: now, detail })
    return issued
  })
}

async function lockChild(query: Query, actor: Actor, keyId: string, now: number): Promise<StoredKey> {
  await lockActor(query, actor, { issues: false })
  return readChildKey(query, { accountId: actor.accountId, keyId, now }, 'FOR NO KEY UPDATE')
}

const revoke = (query: Query, keyId: string, now: number): Promise<unknown> =>
  query('UPDATE api_keys SET revoked_at = $2 WHERE id = $1', [keyId, new Date(now)])

/** Creates an account of a tier and its root key; `email` counts as verified, null leaves it without one. The key's text is the only copy. */
export function createAccountWithKey(
  database: Database,
  options: { tier: Tier; name?: string; email?: string | null; expiresAt?: number },
): Promise<{ account_id: string; key_id: string; key: string }> {
  const { tier, name = null, email = LOCAL_ADDRESS, expiresAt } = options
  const expires_at = expiresAt === undefined ? null : formatInstant(expiresAt)
  return database.transaction(async query => {
    const [account] = await query<{ id: string; created_at: string }>(
      `INSERT INTO accounts (tier, name, email, email_verified_at)
       VALUES ($1, $2, $3::text, CASE WHEN $3::text IS NOT NULL THEN now() END) RETURNING id, created_at`,
      [tier, name, email],
    )
    if (!account) throw new Error('the database returned no account')
    const now = Date.parse(account.created_at)
    const { key, text } = await insertKey(query, { accountId: account.id, kind: 'root', now, expires_at })
    return { account_id: account.id, key_id: key.id, key: text }
  })
}

export const keyPrefix = (kind: KeyKind): string => `sk_live_${kind}`

/** Draws a new key; shown once, then only its hash is known. */
export const newKeyText = (kind: KeyKind): string => `${keyPrefix(kind)}_${randomBytes(32).toString('base64url')}`

/**
 * The ended lineage that a new child key goes on with: of those that no active child has, the one with most requests in the
 * month, and of several the one that ended last. Undefined when there is none: the child begins one. The account is locked.
 */
async function lineageToInherit(
  query: Query,
  accountId: string,
  { now, usedOf }: { now: number; usedOf(lineageIds: readonly string[]): Promise<number[]> },
): Promise<string | undefined> {
  // Something of a lineage may still be counted since the month began, in UTC, and in the last 24 hours.
  const date = new Date(now)
  const periodStart = Math.min(Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1), now - DAY_MS)
  const ended = await query<{ id: string }>(
    `SELECT ${LINEAGE} AS id FROM api_keys k WHERE k.account_id = $1 AND k.kind = 'child' GROUP BY 1
     HAVING bool_and(k.revoked_at IS NOT NULL OR coalesce(k.expires_at <= $2, false))
       AND max(least(k.revoked_at, k.expires_at)) >= $3
     ORDER BY max(least(k.revoked_at, k.expires_at)) DESC, 1`,
    [accountId, new Date(now), new Date(periodStart)],
  )
  if (ended.length === 0) return undefined
  const used = await usedOf(ended.map(({ id }) => id))
  const most = used.reduce((best, count, i) => (count > (used[best] ?? 0) ? i : best), 0)
  return ended[most]?.id
}
