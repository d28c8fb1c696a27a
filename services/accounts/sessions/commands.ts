/**
 * Sessions: short tokens for requests, refresh tokens that are good for one use.
 *
 * Reads and writes sessions and refresh_tokens, reads accounts and api_keys. States of a session: open -> revoked |
 * expired. Invariant: of a session's refresh tokens the newest alone is unused, and the use of a used one revokes the
 * session, since two holders have it (RFC 9700, 4.14.2). What is revoked here is in force here at once, and elsewhere within the
 * bound of access/reader.ts. A signature is checked once in a token's life, and counted on its address before that.
 */
import { hash } from 'node:crypto'
import type { CountFirst, Credential, KeyAnswer } from '#infra/http/credential.ts'
import { HttpError } from '#infra/http/http-error.ts'
import type { Database, Query } from '#infra/postgres/pool.ts'
import { readSession, type SigningKey, signSession, TOKEN_LIFE_SECONDS } from '#infra/sign-in/session-token.ts'
import { DAY_MS, formatInstant } from '#schemas/values/instant.ts'
import { openFreshAnswers } from '../access/reader.ts'
import { type Origin, recordAction, recordAudit } from '../audit/commands.ts'
import { hashOf, lockForOwner, newText } from '../commands.ts'
import type { SigningKeys } from './signing-keys.ts'

const SESSION_LIFE_MS = 30 * DAY_MS
/** Tokens whose signature is good. */
const CHECKED_MAX = 10_000

/** A session may change who can take the account over for ten minutes after its sign-in; a refresh does not begin it again. */
const CREDENTIALS = `SELECT 'session' AS kind, s.id AS "sessionId", s.account_id AS "accountId", a.tier, true AS "isRootKey",
    k.id AS "keyId", k.id AS "rootKeyId", coalesce(k.lineage_id, k.id) AS "lineageId",
    k.quota_requests_per_month_override, k.rate_requests_per_minute_override, NULL AS scopes,
    s.created_at > $2::timestamptz - interval '10 minutes' AS "isRecentSession",
    a.disabled_at IS NOT NULL AS "isDisabled"
  FROM sessions s JOIN accounts a ON a.id = s.account_id
  JOIN api_keys k ON k.account_id = a.id AND k.kind = 'root' AND k.revoked_at IS NULL
  WHERE s.id = ANY ($1::uuid[]) AND s.revoked_at IS NULL AND s.expires_at > $2`

type SessionRow = Credential & { sessionId: string; isDisabled: boolean }

const INVALID = {
  accepted: false as const,
  code: 'AUTH_INVALID_API_KEY' as const,
  detail: 'This session token is not valid, or has expired; take a new one with POST /account/session/refresh.',
}
const DISABLED: KeyAnswer = { accepted: false, code: 'AUTH_ACCOUNT_DISABLED', detail: 'This account is disabled.' }

interface SessionScope {
  database: Database
  keys: SigningKeys
  /** Public root of the API. */
  issuer: string
  /** Milliseconds since the epoch. */
  now: () => number
}

function openTokenCheck({ database, keys, issuer, now }: SessionScope) {
  /** By the hash of a token. */
  const checked = new Map<string, { sessionId: string; expiresAt: number }>()
  const { answerOn, forget } = openFreshAnswers(async sessionIds => {
    const rows = await database.rows<SessionRow>(CREDENTIALS, [sessionIds, new Date(now())])
    return new Map(
      rows.map(({ isDisabled, ...credential }) => [
        credential.sessionId,
        isDisabled ? DISABLED : { accepted: true, credential },
      ]),
    )
  }, INVALID)

  async function check(token: string, tokenHash: string, countFirst: CountFirst): Promise<KeyAnswer> {
    const giveBack = await countFirst()
    const at = now()
    const claims = await readSession(token, { issuer, now: at }, id => keys.publicKeyOf(id, at))
    if (!claims) return { ...INVALID, isCounted: true }
    giveBack()
    if (checked.size >= CHECKED_MAX) checked.clear()
    checked.set(tokenHash, claims)
    return answerOn(claims.sessionId)
  }

  return {
    /** Authenticates the token of a request: it acts as its account's active root key. One that was not checked before is counted first. */
    authenticate(token: string, countFirst: CountFirst): KeyAnswer | Promise<KeyAnswer> {
      const tokenHash = hash('sha256', token, 'base64')
      const claims = checked.get(tokenHash)
      return claims && claims.expiresAt > now() ? answerOn(claims.sessionId) : check(token, tokenHash, countFirst)
    },
    /** Forgets an account's sessions, so that a change made here is in force here at once. */
    forget,
  }
}

export function openSessions(scope: SessionScope) {
  const { database, keys, issuer } = scope
  const { authenticate, forget } = openTokenCheck(scope)

  /** The tokens of a session; the only copies. */
  async function issue(
    query: Query,
    { id: sessionId, accountId, expiresAt }: Pick<LockedSession, 'id' | 'accountId' | 'expiresAt'>,
    { key, now }: { key: SigningKey; now: number },
  ) {
    const refresh_token = newText('refresh_')
    await query('INSERT INTO refresh_tokens (hash, session_id, issued_at) VALUES ($1, $2, $3)', [
      ...[hashOf(refresh_token), sessionId, new Date(now)],
    ])
    return {
      access_token: await signSession(key, { accountId, sessionId }, { issuer, now }),
      token_type: 'Bearer' as const,
      expires_in: TOKEN_LIFE_SECONDS,
      refresh_token,
      session_expires_at: expiresAt,
    }
  }

  return {
    publicKeys: keys.published,
    authenticate,
    forget,
    /** Opens a session of the account that `claim` names, in one transaction with it; `address` is its client's. */
    async open(claim: (query: Query) => Promise<string>, now: number, address?: string) {
      // Before the transaction: a new key needs a connection of its own.
      const key = await keys.current(now)
      return database.transaction(async query => {
        const accountId = await claim(query)
        const session = { id: crypto.randomUUID(), accountId, expiresAt: formatInstant(now + SESSION_LIFE_MS) }
        await query('DELETE FROM sessions WHERE expires_at < $1', [new Date(now - DAY_MS)])
        await query('INSERT INTO sessions (id, account_id, created_at, expires_at) VALUES ($1, $2, $3, $4)', [
          ...[session.id, accountId, new Date(now), session.expiresAt],
        ])
        const detail = { session_id: session.id }
        await recordAudit(query, { kind: 'session.opened', at: now, accountId, address, detail })
        return issue(query, session, { key, now })
      })
    },
    /** Exchanges a refresh token for new tokens; refuses one that was used before, and revokes its session. */
    async refresh(refreshToken: string, now: number, address?: string) {
      const key = await keys.current(now)
      let session: LockedSession | undefined
      const tokens = await database.transaction(async query => {
        session = await lockSession(query, refreshToken, now)
        if (!session || session.isEnded) return undefined
        const { id, accountId } = session
        if (session.isUsed) {
          await revokeSession(query, id, now)
          const detail = { session_id: id }
          await recordAudit(query, { kind: 'session.refresh_reused', at: now, accountId, address, detail })
          return undefined
        }
        await query('UPDATE refresh_tokens SET used_at = $2 WHERE hash = $1', [hashOf(refreshToken), new Date(now)])
        return issue(query, session, { key, now })
      })
      // Refused only now: the revocation must stay.
      if (tokens) return tokens
      if (session) forget(session.accountId)
      const detail = 'This refresh token is not valid, was used, or has expired; sign in again.'
      throw new HttpError('AUTH_INVALID_SESSION', detail)
    },
    async revoke({ accountId, sessionId }: { accountId: string; sessionId: string }, now: number): Promise<void> {
      await revokeSession(database.rows, sessionId, now)
      forget(accountId)
    },
    /** Ends every session of an account, and what was begun by one: sign-ins, platform links, links to verify an address. */
    async revokeAll(origin: Origin, now: number): Promise<void> {
      await database.transaction(query => revokeSessionsOf(query, origin, now))
      forget(origin.accountId)
    },
  }
}

interface LockedSession {
  id: string
  accountId: string
  expiresAt: string
  isUsed: boolean
  isEnded: boolean
}

/** Locks the session of a refresh token, so that of two uses one comes second. */
async function lockSession(query: Query, refreshToken: string, now: number): Promise<LockedSession | undefined> {
  const tokenHash = hashOf(refreshToken)
  const [session] = await query<Omit<LockedSession, 'isUsed'>>(
    `SELECT id, account_id AS "accountId", expires_at AS "expiresAt",
       revoked_at IS NOT NULL OR expires_at <= $2 AS "isEnded"
     FROM sessions WHERE id = (SELECT session_id FROM refresh_tokens WHERE hash = $1) FOR UPDATE`,
    [tokenHash, new Date(now)],
  )
  // Read after the lock: the use before may have ended a moment ago.
  const [token] = await query<{ isUsed: boolean }>(
    'SELECT used_at IS NOT NULL AS "isUsed" FROM refresh_tokens WHERE hash = $1',
    [tokenHash],
  )
  return session && token && { ...session, ...token }
}

/**
 * The account first: what is under way ends before, or finds that it is signed out. Codes of sign-ins before sessions: an exchange
 * that is under way ends before its session is looked for.
 */
async function revokeSessionsOf(query: Query, origin: Origin, now: number): Promise<void> {
  const { accountId } = origin
  const at = new Date(now)
  await lockForOwner(query, origin)
  await query('UPDATE accounts SET signed_out_at = $2 WHERE id = $1', [accountId, at])
  await query('UPDATE sign_ins SET exchanged_at = $2 WHERE account_id = $1 AND exchanged_at IS NULL', [accountId, at])
  await query('UPDATE email_links SET used_at = $2 WHERE account_id = $1 AND used_at IS NULL', [accountId, at])
  await query('UPDATE sessions SET revoked_at = $2 WHERE account_id = $1 AND revoked_at IS NULL', [accountId, at])
  await recordAction(query, origin, { kind: 'session.all_revoked', at: now })
}

async function revokeSession(query: Query, sessionId: string, now: number): Promise<void> {
  await query('UPDATE sessions SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL', [sessionId, new Date(now)])
}
