/**
 * Finds the key of a Bearer credential: the check that every authenticated request passes.
 *
 * Reads accounts and api_keys, writes nothing; shared by the roles that answer clients. Invariant: a revocation is in force within the
 * bound of fresh-answers.ts.
 */
import { hash } from 'node:crypto'
import type { Tier } from '#infra/config/tiers.ts'
import type { CountFirst, KeyAnswer, RefusalCode } from '#infra/http/credential.ts'
import type { Database } from '#infra/postgres/pool.ts'
import type { Access } from '#schemas/api/operation.ts'
import type { Scope } from '#schemas/api/scopes.ts'
import { openFreshAnswers } from './fresh-answers.ts'

/** The directory of keys. */
export interface KeyDirectory {
  /**
   * Judges an Authorization header. Answers at once for a key checked lately, else asks Postgres;
   * rejects when that does not answer.
   */
  judge(authorization: string | undefined): KeyAnswer | Promise<KeyAnswer>
  /** Judges by a key's hash what {@link KeyDirectory.judge} let in before; never by what a client sent. */
  judgeHash(hash: string): KeyAnswer | Promise<KeyAnswer>
  /** Forgets what is known of an account's keys, so that a change made here is in force here at once. */
  forget(accountId: string): void
}

interface KeyRow {
  hash: string
  id: string
  account_id: string
  root_key_id: string
  lineage_id: string
  kind: 'root' | 'child'
  scopes: Scope[] | null
  tier: Tier
  revoked: boolean
  expired: boolean | null
  disabled: boolean
  quota_requests_per_month_override: number | null
  rate_requests_per_minute_override: number | null
}

const SELECT = `SELECT encode(k.hash, 'hex') AS hash, k.id, k.account_id, k.root_key_id, coalesce(k.lineage_id, k.id) AS lineage_id, k.kind, k.scopes, a.tier,
    k.revoked_at IS NOT NULL OR r.revoked_at IS NOT NULL AS revoked,
    LEAST(k.expires_at, r.expires_at) <= now() AS expired,
    a.disabled_at IS NOT NULL AS disabled,
    k.quota_requests_per_month_override, k.rate_requests_per_minute_override
  FROM api_keys k JOIN api_keys r ON r.id = k.root_key_id JOIN accounts a ON a.id = k.account_id
  WHERE k.hash IN (SELECT decode(h, 'hex') FROM unnest($1::text[]) AS h)`

const refusal = (code: RefusalCode, detail: string): KeyAnswer => ({ accepted: false, code, detail })

const MALFORMED = refusal('AUTH_INVALID_API_KEY', 'Send your API key as `Authorization: Bearer <API_KEY>`.')
const UNKNOWN = refusal('AUTH_INVALID_API_KEY', 'This API key is not known.')

/** Opens the directory; `now` is a monotonic clock in milliseconds. */
export function openKeyDirectory(database: Database, now?: () => number): KeyDirectory {
  const query = async (hashes: readonly string[]) =>
    new Map((await database.rows<KeyRow>(SELECT, [hashes])).map(row => [row.hash, answerOf(row)]))
  const { judge: judgeHash, forget } = openFreshAnswers(query, UNKNOWN, now)
  return {
    judge(authorization) {
      const key = bearerOf(authorization)
      return key === undefined ? MALFORMED : judgeHash(hashOfKey(key))
    },
    judgeHash,
    forget,
  }
}

/** The key's text of an Authorization header that has the form of one. */
export function bearerOf(authorization: string | undefined): string | undefined {
  if (authorization === undefined || authorization.slice(0, 7).toLowerCase() !== 'bearer ') return undefined
  const key = authorization.slice(7)
  return isKeyText(key) ? key : undefined
}

function answerOf(row: KeyRow): KeyAnswer {
  if (row.revoked) return refusal('AUTH_API_KEY_REVOKED', 'This API key was revoked; use the key that replaced it.')
  if (row.expired) return refusal('AUTH_INVALID_API_KEY', 'This API key has expired.')
  if (row.disabled) return refusal('AUTH_ACCOUNT_DISABLED', 'The account of this API key is disabled.')
  return {
    accepted: true,
    credential: {
      kind: 'key',
      keyId: row.id,
      accountId: row.account_id,
      tier: row.tier,
      isRootKey: row.kind === 'root',
      rootKeyId: row.root_key_id,
      lineageId: row.lineage_id,
      quotaPerMonthOverride: row.quota_requests_per_month_override,
      ratePerMinuteOverride: row.rate_requests_per_minute_override,
      scopes: row.scopes,
    },
  }
}

/** Root keys manage children; child keys only read data. */
export type KeyKind = 'root' | 'child'

const KEY_FORM = /^sk_live_(?:root|child)_[A-Za-z0-9_-]{43}$/

/** Whether a text has the form of a key. */
export const isKeyText = (text: string): boolean => KEY_FORM.test(text)

/** SHA-256 of a key's text, as 64 hexadecimal digits. */
export const hashOfKey = (text: string): string => hash('sha256', text, 'hex')

const SESSION_FORM = /^bearer ([\w-]+\.[\w-]+\.[\w-]+)$/i

/** Judges API keys, and session tokens where a route takes them and sign-in is configured; keys have no dots. */
export function openAuthenticate(
  keys: Pick<KeyDirectory, 'judge'>,
  sessions: { judge(token: string, countFirst: CountFirst): KeyAnswer | Promise<KeyAnswer> } | undefined,
): (
  request: { headers: { authorization?: string } },
  access: Access,
  countFirst: CountFirst,
) => KeyAnswer | Promise<KeyAnswer> {
  return ({ headers: { authorization } }, access, countFirst) => {
    const takesSession = access === 'account' || access === 'management' || access === 'recent-session'
    const token = takesSession && authorization !== undefined ? SESSION_FORM.exec(authorization)?.[1] : undefined
    return token === undefined || !sessions ? keys.judge(authorization) : sessions.judge(token, countFirst)
  }
}
