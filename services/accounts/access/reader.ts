/**
 * Finds the key of a Bearer credential: the check that every authenticated request passes.
 *
 * Reads accounts and api_keys, writes nothing; shared by the roles that answer clients. Invariant: a revocation is in force within the
 * bound of fresh-answers.ts.
 */
import { hash } from 'node:crypto'
import type { CountFirst, Credential, KeyAnswer, RefusalCode } from '#infra/http/credential.ts'
import type { Database } from '#infra/postgres/pool.ts'
import type { Access } from '#schemas/api/operation.ts'
import { openFreshAnswers } from './fresh-answers.ts'

/** Answers at once for a key that was read lately, else by Postgres; rejects when that does not answer. */
export interface KeyDirectory {
  /** Authenticates by an Authorization header. */
  authenticate(authorization: string | undefined): KeyAnswer | Promise<KeyAnswer>
  /** Authenticates again, by its hash, a key that {@link KeyDirectory.authenticate} accepted before; never by what a client sent. */
  authenticateHash(hash: string): KeyAnswer | Promise<KeyAnswer>
  /** Forgets an account's keys, so that a change made here is in force here at once. */
  forget(accountId: string): void
}

/** A root and its children, its lineage, and the account's tier; `kind` is that of credentials. */
const SELECT = `SELECT encode(k.hash, 'hex') AS hash, 'key' AS kind, k.id AS "keyId", k.account_id AS "accountId", a.tier,
    k.kind = 'root' AS "isRootKey", k.root_key_id AS "rootKeyId", coalesce(k.lineage_id, k.id) AS "lineageId",
    k.quota_requests_per_month_override AS "quotaPerMonthOverride", k.rate_requests_per_minute_override AS "ratePerMinuteOverride",
    k.scopes, k.revoked_at IS NOT NULL OR r.revoked_at IS NOT NULL AS "isRevoked",
    LEAST(k.expires_at, r.expires_at) <= now() AS "isExpired", a.disabled_at IS NOT NULL AS "isDisabled"
  FROM api_keys k JOIN api_keys r ON r.id = k.root_key_id JOIN accounts a ON a.id = k.account_id
  WHERE k.hash IN (SELECT decode(h, 'hex') FROM unnest($1::text[]) AS h)`

type KeyRow = Credential & { hash: string; isRevoked: boolean; isExpired: boolean | null; isDisabled: boolean }

const refusal = (code: RefusalCode, detail: string): KeyAnswer => ({ accepted: false, code, detail })

const MALFORMED = refusal('AUTH_INVALID_API_KEY', 'Send your API key as `Authorization: Bearer <API_KEY>`.')
const UNKNOWN = refusal('AUTH_INVALID_API_KEY', 'This API key is not known.')

/** Opens the directory; `now` is a monotonic clock in milliseconds. */
export function openKeyDirectory(database: Database, now?: () => number): KeyDirectory {
  const query = async (hashes: readonly string[]) =>
    new Map((await database.rows<KeyRow>(SELECT, [hashes])).map(row => [row.hash, answerOf(row)]))
  const { answerOn, forget } = openFreshAnswers(query, UNKNOWN, now)
  return {
    authenticate(authorization) {
      const key = bearerOf(authorization)
      return key === undefined ? MALFORMED : answerOn(hashOfKey(key))
    },
    authenticateHash: answerOn,
    forget,
  }
}

/** The key's text of an Authorization header that has the form of one. */
export function bearerOf(authorization: string | undefined): string | undefined {
  return authorization === undefined ? undefined : KEY_FORM.exec(authorization)?.[1]
}

function answerOf({ hash: _, isRevoked, isExpired, isDisabled, ...credential }: KeyRow): KeyAnswer {
  if (isRevoked) return refusal('AUTH_API_KEY_REVOKED', 'This API key was revoked; use the key that replaced it.')
  if (isExpired) return refusal('AUTH_INVALID_API_KEY', 'This API key has expired.')
  if (isDisabled) return refusal('AUTH_ACCOUNT_DISABLED', 'The account of this API key is disabled.')
  return { accepted: true, credential }
}

/** Root keys manage children; child keys only read data. */
export type KeyKind = 'root' | 'child'

const KEY_FORM = /^(?i:bearer) (sk_live_(?:root|child)_[A-Za-z0-9_-]{43})$/

/** SHA-256 of a key's text, as 64 hexadecimal digits. */
export const hashOfKey = (text: string): string => hash('sha256', text, 'hex')

const SESSION_FORM = /^bearer ([\w-]+\.[\w-]+\.[\w-]+)$/i

/** Authenticates by API keys, and by session tokens on routes that accept them where sign-in is configured; keys have no dots. */
export function openAuthenticate(
  keys: Pick<KeyDirectory, 'authenticate'>,
  sessions: { authenticate(token: string, countFirst: CountFirst): KeyAnswer | Promise<KeyAnswer> } | undefined,
): (
  request: { headers: { authorization?: string } },
  access: Access,
  countFirst: CountFirst,
) => KeyAnswer | Promise<KeyAnswer> {
  return ({ headers: { authorization } }, access, countFirst) => {
    const isSessionRoute = access === 'account' || access === 'management' || access === 'recent-session'
    const token = isSessionRoute && authorization !== undefined ? SESSION_FORM.exec(authorization)?.[1] : undefined
    return token === undefined || !sessions
      ? keys.authenticate(authorization)
      : sessions.authenticate(token, countFirst)
  }
}
