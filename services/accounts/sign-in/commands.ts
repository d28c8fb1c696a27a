/**
 * A sign-in, from the browser's redirect to the session: the returning identity gets an account.
 *
 * Writes sign_ins, identities and accounts. States: begun -> returned -> exchanged (for a session, or for the link of
 * a platform account: platform/commands.ts); each step once, within its time, in the browser that began (its cookie), and none after the
 * account's sessions were ended, which exchanges what is its own and refuses what began before. Invariant: each step is claimed by one
 * UPDATE before anything else happens, so of two attempts one finds nothing; an identity (issuer and subject) belongs to one account.
 * A new account gets a root key whose text is discarded: the first usable one comes by
 * reissue.
 */
import { randomBytes } from 'node:crypto'
import { HttpError } from '#infra/http/http-error.ts'
import { acquireAdvisoryLock, type Database, type Query } from '#infra/postgres/pool.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import { openSealedBox, type SealedBox } from '#infra/runtime/sealed-box.ts'
import {
  type Identity,
  type IdentityProvider,
  openIdentityProvider,
  type SignInChecks,
} from '#infra/sign-in/identity-provider.ts'
import { openPlatformProvider, type PlatformProvider } from '#infra/sign-in/platform-provider.ts'
import { DAY_MS, MINUTE_MS } from '#schemas/values/instant.ts'
import { hashOf, type MailScope, newText, sendVerification } from '../commands.ts'
import { openSessions, type Sessions, type SessionTokens } from '../sessions/commands.ts'
import { openSigningKeys } from '../sessions/signing-keys.ts'

export interface SignInScope {
  database: Database
  box: SealedBox
  provider: IdentityProvider
  sessions: Sessions
  /** Undefined when no mail can be sent. */
  mail: MailScope | undefined
}

export interface PlatformScope {
  database: Database
  platform: PlatformProvider
  /** Undefined when no mail can be sent. */
  mail: MailScope | undefined
}

/** The time that a browser may stay with the provider. */
export const SIGN_IN_LIFE_MS = 10 * MINUTE_MS
const EXCHANGE_LIFE_MS = 2 * MINUTE_MS
const UUID_BYTES = 16

const sealContextOf = (id: string): string => `sign_ins/${id}`

const REFUSAL =
  'This sign-in was not begun in this browser, was used, or took too long; begin again at GET /account/login.'

export const refused = (detail: string): HttpError => new HttpError('SIGN_IN_REFUSED', detail)

/** A browser that came back with the query of a provider. */
export interface Return {
  query: string
  state: string
  /** Its cookie. */
  browser: string
}

/** Claims a return that is the first, within its time, and of the browser that began. */
export async function claimReturn(
  { rows }: Database,
  kind: 'provider' | 'platform',
  { state, browser }: Return,
  now: number,
): Promise<{ id: string; accountId: string | null; sealedChecks: string | null; begunAt: string } | undefined> {
  const [claimed] = await rows<NonNullable<Awaited<ReturnType<typeof claimReturn>>>>(
    `UPDATE sign_ins SET returned_at = $3 WHERE state_hash = $1 AND browser_hash = $2 AND kind = $4
     AND returned_at IS NULL AND exchanged_at IS NULL AND expires_at > $3
     RETURNING id, account_id AS "accountId", sealed_checks AS "sealedChecks", begun_at AS "begunAt"`,
    [hashOf(state), hashOf(browser), new Date(now), kind],
  )
  return claimed
}

/** Begins: where the browser goes, and what it carries until it is back. */
export async function beginSignIn(
  { database, box, provider }: SignInScope,
  now: number,
): Promise<{ url: string; browser: string }> {
  const begun = await provider.begin()
  if (!begun) throw new HttpError('UPSTREAM_ERROR', 'The identity provider does not answer; try again later.')
  const [id, browser] = [crypto.randomUUID(), newText()]
  await database.transaction(async query => {
    await query('DELETE FROM sign_ins WHERE expires_at < $1', [new Date(now - DAY_MS)])
    await query(
      `INSERT INTO sign_ins (id, kind, state_hash, browser_hash, sealed_checks, begun_at, expires_at)
       VALUES ($1, 'provider', $2, $3, $4, $5, $6)`,
      [
        ...[id, hashOf(begun.state), hashOf(browser), box.seal(JSON.stringify(begun.checks), sealContextOf(id))],
        ...[new Date(now), new Date(now + SIGN_IN_LIFE_MS)],
      ],
    )
  })
  return { url: begun.url, browser }
}

/** Asks the provider who came back, and makes or finds the account; the code, the only copy, is for POST /account/session. */
export async function returnSignIn(
  scope: SignInScope,
  back: Return,
  now: number,
): Promise<{ code: string; expiresAt: number; accountId: string }> {
  const begun = await claimReturn(scope.database, 'provider', back, now)
  if (!begun) throw refused(REFUSAL)
  const checks: SignInChecks = JSON.parse(scope.box.open(begun.sealedChecks as string, sealContextOf(begun.id)))
  const outcome = await scope.provider.finish(back.query, back.state, checks)
  if (outcome.kind === 'unreachable') {
    throw new HttpError('UPSTREAM_ERROR', 'The identity provider does not answer; begin again later.')
  }
  if (outcome.kind === 'refused') throw refused(`The sign-in was refused (${outcome.reason}); begin again.`)
  return scope.database.transaction(async query => {
    const accountId = await accountOf(query, scope, outcome.identity, { begunAt: begun.begunAt, now })
    const code = newText('code_')
    const expiresAt = now + EXCHANGE_LIFE_MS
    await query(
      'UPDATE sign_ins SET account_id = $2, code_hash = $3, expires_at = $4, sealed_checks = NULL WHERE id = $1',
      [...[begun.id, accountId, hashOf(code), new Date(expiresAt)]],
    )
    return { code, expiresAt, accountId }
  })
}

/** Exchanges the code of a sign-in for a session, once. */
export function exchangeSignIn(
  { sessions }: SignInScope,
  { code, browser, address }: { code: string; browser: string; address?: string | undefined },
  now: number,
): Promise<SessionTokens> {
  const claim = async (query: Query): Promise<string> => {
    const [signIn] = await query<{ accountId: string }>(
      `UPDATE sign_ins SET exchanged_at = $3 WHERE code_hash = $1 AND browser_hash = $2 AND exchanged_at IS NULL
       AND expires_at > $3 RETURNING account_id AS "accountId"`,
      [hashOf(code), hashOf(browser), new Date(now)],
    )
    if (!signIn) throw refused(REFUSAL)
    return signIn.accountId
  }
  return sessions.open(claim, now, address)
}

/** The account of an identity; made at its first sign-in. */
async function accountOf(
  query: Query,
  { mail }: SignInScope,
  identity: Identity,
  { begunAt, now }: { begunAt: string; now: number },
): Promise<string> {
  const { issuer, subject, email = null, isEmailVerified } = identity
  // Two first sign-ins of one person run one after the other.
  await acquireAdvisoryLock(query, JSON.stringify([issuer, subject]))
  const [account] = await query<{ id: string; isDisabled: boolean; isVerified: boolean; isSignedOut: boolean | null }>(
    `SELECT a.id, a.disabled_at IS NOT NULL AS "isDisabled", a.email_verified_at IS NOT NULL AS "isVerified",
       a.signed_out_at >= $3 AS "isSignedOut"
     FROM identities i JOIN accounts a ON a.id = i.account_id
     WHERE i.issuer = $1 AND i.subject = $2 FOR NO KEY UPDATE OF a`,
    [issuer, subject, begunAt],
  )
  if (account?.isSignedOut) throw refused(REFUSAL)
  if (account?.isDisabled) throw new HttpError('AUTH_ACCOUNT_DISABLED', 'This account is disabled.')
  const accountId = account?.id ?? (await createAccount(query, identity, now))
  if (account?.isVerified || email === null) return accountId
  if (isEmailVerified) {
    await query('UPDATE accounts SET email = $2, email_verified_at = $3 WHERE id = $1', [
      ...[accountId, email, new Date(now)],
    ])
  } else if (!account && mail) await sendVerification(query, mail, { accountId, email, now })
  return accountId
}

/**
 * The lineage of its keys is drawn from the identity, of which it tells nothing: limits go on when an account is deleted and its
 * owner signs in again.
 */
async function createAccount(query: Query, { issuer, subject, email }: Identity, now: number): Promise<string> {
  const at = new Date(now)
  const [account] = await query<{ id: string }>(
    `INSERT INTO accounts (tier, email, created_at) VALUES ('free', $1, $2) RETURNING id`,
    [email ?? null, at],
  )
  const [accountId, keyId] = [account?.id as string, crypto.randomUUID()]
  await query('INSERT INTO identities (issuer, subject, account_id, created_at) VALUES ($1, $2, $3, $4)', [
    ...[issuer, subject, accountId, at],
  ])
  const lineageId = hashOf(JSON.stringify([issuer, subject])).toString('hex', 0, UUID_BYTES)
  await query(
    `INSERT INTO api_keys (id, account_id, kind, root_key_id, hash, created_at, lineage_id)
     VALUES ($1, $2, 'root', $1, $3, $4, $5)`,
    [keyId, accountId, randomBytes(32), at, lineageId],
  )
  return accountId
}

/**
 * Opens sign-in, sessions, verification mails and platform links; what is not configured is undefined, and disables what needs it and
 * nothing else. No connection: providers are called at sign-in.
 */
export function openSignIn(
  config: Pick<PlatformConfig, 'baseUrl' | 'secretKey' | 'signIn' | 'platformSignInUrl' | 'smtpUrl'>,
  database: Database,
  now: () => number,
): { signIn: SignInScope | undefined; platformSignIn: PlatformScope | undefined; mail: MailScope | undefined } {
  const { baseUrl, secretKey, signIn, platformSignInUrl, smtpUrl } = config
  const box = secretKey === undefined ? undefined : openSealedBox(secretKey)
  const mail = box && smtpUrl !== undefined ? { box, baseUrl } : undefined
  const platformSignIn =
    platformSignInUrl === undefined
      ? undefined
      : {
          database,
          mail,
          platform: openPlatformProvider({
            endpoint: platformSignInUrl,
            returnTo: `${baseUrl}/v1/account/platform/callback`,
            realm: baseUrl,
          }),
        }
  if (!box || !signIn) return { mail, platformSignIn, signIn: undefined }
  const keys = openSigningKeys(database, box)
  return {
    mail,
    platformSignIn,
    signIn: {
      database,
      box,
      mail,
      provider: openIdentityProvider({ ...signIn, redirectUri: `${baseUrl}/v1/account/callback` }),
      sessions: openSessions({ database, keys, issuer: baseUrl, now }),
    },
  }
}
