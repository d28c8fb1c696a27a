/**
 * Sessions: short tokens for requests, refresh tokens that are good for one use.
 *
 * Reads and writes sessions and refresh_tokens. States of a session: open -> revoked |
 * expired. Invariant: of a session's refresh tokens the newest alone is unused, and the use of a used one revokes the
 * session, since two holders have it (RFC 9700, 4.14.2). What is revoked here is in force here at once.
 */
import { HttpError } from '#infra/http/http-error.ts'
import type { Database, Query } from '#infra/postgres/pool.ts'
import { type SigningKey, signSession, TOKEN_LIFE_SECONDS } from '#infra/sign-in/session-token.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { type Origin, recordAction, recordAudit } from '../audit/commands.ts'
import { lockForOwner } from '../commands.ts'
import { hashOf, newText } from '../one-time-text.ts'
import { openSessionCheck, type SessionCheck } from './reader.ts'
import type { PublicKey, SigningKeys } from './signing-keys.ts'

/** The tokens of a session; the only copies. */
export interface SessionTokens {
  accessToken: string
  expiresInSeconds: number
  refreshToken: string
  /** Milliseconds since the epoch, for the whole session. */
  expiresAt: number
}

/** The sessions of a platform. */
export interface Sessions extends SessionCheck {
  /** Opens a session of the account that `claim` names, in one transaction with it; `address` is its client's. */
  open(claim: (query: Query) => Promise<string>, now: number, address?: string): Promise<SessionTokens>
  /** Takes a refresh token for new tokens; refuses one that was used before, and revokes its session. */
  refresh(refreshToken: string, now: number, address?: string): Promise<SessionTokens>
  /** Ends a session. */
  revoke(session: { accountId: string; sessionId: string }, now: number): Promise<void>
  /** Ends every session of an account, and what was begun by one: sign-ins, platform links, links to verify an address. */
  revokeAll(origin: Origin, now: number): Promise<void>
  /** The keys to check tokens with. */
  publicKeys(now: number): Promise<PublicKey[]>
}

const SESSION_LIFE_MS = 30 * DAY_MS
const PREFIX = 'refresh_'

const invalidRefresh = (): HttpError =>
  new HttpError('AUTH_INVALID_SESSION', 'This refresh token is not valid, was used, or has expired; sign in again.')

/** Opens the sessions of a database; `issuer` is the public root of the API. */
export function openSessions(options: {
  database: Database
  keys: SigningKeys
  issuer: string
  /** Milliseconds since the epoch. */
  now: () => number
}): Sessions {
  const { database, keys, issuer } = options
  const check = openSessionCheck(options)

  async function issue(
    query: Query,
    session: { id: string; accountId: string; expiresAt: number },
    { key, now }: { key: SigningKey; now: number },
  ): Promise<SessionTokens> {
    const refreshToken = newText(PREFIX)
    await query('INSERT INTO refresh_tokens (hash, session_id, issued_at) VALUES ($1, $2, $3)', [
      ...[hashOf(refreshToken), session.id, new Date(now)],
    ])
    const claims = { accountId: session.accountId, sessionId: session.id }
    return {
      accessToken: await signSession(key, claims, { issuer, now }),
      expiresInSeconds: TOKEN_LIFE_SECONDS,
      refreshToken,
      expiresAt: session.expiresAt,
    }
  }

  return {
    publicKeys: keys.published,
    async open(claim, now, address) {
      // Before the transaction: a new key takes a connection of its own.
      const key = await keys.current(now)
      return database.transaction(async query => {
        const accountId = await claim(query)
        const session = { id: crypto.randomUUID(), accountId, expiresAt: now + SESSION_LIFE_MS }
        await query('DELETE FROM sessions WHERE expires_at < $1', [new Date(now - DAY_MS)])
        await query('INSERT INTO sessions (id, account_id, created_at, expires_at) VALUES ($1, $2, $3, $4)', [
          ...[session.id, accountId, new Date(now), new Date(session.expiresAt)],
        ])
        const detail = { session_id: session.id }
        await recordAudit(query, { kind: 'session.opened', at: now, accountId, address, detail })
        return issue(query, session, { key, now })
      })
    },
    async refresh(refreshToken, now, address) {
      const key = await keys.current(now)
      let found: LockedSession | undefined
      const tokens = await database.transaction(async query => {
        found = await lockSession(query, refreshToken, now)
        if (found?.isUsed && !found.isEnded) await endReused(query, found, { now, address })
        if (!found || found.isUsed || found.isEnded) return undefined
        await query('UPDATE refresh_tokens SET used_at = $2 WHERE hash = $1', [hashOf(refreshToken), new Date(now)])
        return issue(query, found, { key, now })
      })
      // Refused only now: the revocation must stay.
      if (tokens) return tokens
      if (found) check.forget(found.accountId)
      throw invalidRefresh()
    },
    revoke: ({ accountId, sessionId }, now) =>
      revokeSession(database.rows, sessionId, now).then(() => check.forget(accountId)),
    revokeAll: (origin, now) =>
      database.transaction(query => revokeSessionsOf(query, origin, now)).then(() => check.forget(origin.accountId)),
    ...check,
  }
}

interface LockedSession {
  id: string
  accountId: string
  expiresAt: number
  isUsed: boolean
  isEnded: boolean
}

/** Locks the session of a refresh token, so that of two uses one comes second. */
async function lockSession(query: Query, refreshToken: string, now: number): Promise<LockedSession | undefined> {
  const hash = hashOf(refreshToken)
  const [session] = await query<{ id: string; account_id: string; expires_at: Date; revoked_at: Date | null }>(
    `SELECT s.id, s.account_id, s.expires_at, s.revoked_at FROM sessions s
     WHERE s.id = (SELECT session_id FROM refresh_tokens WHERE hash = $1) FOR UPDATE`,
    [hash],
  )
  // Read after the lock: the use before may have ended a moment ago.
  const [token] = await query<{ is_used: boolean }>(
    'SELECT used_at IS NOT NULL AS is_used FROM refresh_tokens WHERE hash = $1',
    [hash],
  )
  if (!session || !token) return undefined
  const expiresAt = session.expires_at.getTime()
  const isEnded = session.revoked_at !== null || expiresAt <= now
  return { id: session.id, accountId: session.account_id, expiresAt, isUsed: token.is_used, isEnded }
}

/** Ends a session of which two hold a refresh token. */
async function endReused(
  query: Query,
  { id, accountId }: { id: string; accountId: string },
  { now, address }: { now: number; address: string | undefined },
): Promise<void> {
  await revokeSession(query, id, now)
  const detail = { session_id: id }
  await recordAudit(query, { kind: 'session.refresh_reused', at: now, accountId, address, detail })
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
