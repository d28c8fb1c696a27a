/**
 * A sign-in, from the browser's redirect to the session: the returning identity gets an account, or links a platform account.
 *
 * Writes sign_ins, identities, platform_links and accounts. States: begun -> returned -> exchanged (for a session, or for the link of
 * a platform account); each step once, within its time, in the browser that began (its cookie), and none after the account's sessions
 * were ended, which exchanges what is its own and refuses what began before. Invariant: each step is claimed by one UPDATE before
 * anything else happens, so of two attempts one finds nothing; an identity (issuer and subject) belongs to one account; a platform
 * account's id comes from the platform alone. A new account gets a root key whose text is discarded: the first usable one comes by
 * reissue.
 */
import { randomBytes } from 'node:crypto'
import { HttpError } from '#infra/http/http-error.ts'
import type { Database, Query } from '#infra/postgres/pool.ts'
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
import { type Origin, recordAction, recordAudit } from '../audit/commands.ts'
import { lockForOwner, type MailScope, sendVerification, tellPlatformChange } from '../commands.ts'
import { hashOf, newText } from '../one-time-text.ts'
import { openSessions, type Sessions, type SessionTokens } from '../sessions/commands.ts'
import { openSigningKeys } from '../sessions/signing-keys.ts'

/** What a sign-in works with. */
export interface SignInScope {
  database: Database
  box: SealedBox
  provider: IdentityProvider
  sessions: Sessions
  /** Undefined when no mail can be sent. */
  mail: MailScope | undefined
}

/** A sign-in that came back. */
interface Returned {
  /** For POST /account/session; the only copy. */
  code: string
  expiresAt: number
  accountId: string
}

/** How long a browser may stay with the provider. */
export const SIGN_IN_LIFE_MS = 10 * MINUTE_MS
const EXCHANGE_LIFE_MS = 2 * MINUTE_MS
const UUID_BYTES = 16

const sealContextOf = (id: string): string => `sign_ins/${id}`

const refused = (detail: string): HttpError => new HttpError('SIGN_IN_REFUSED', detail)

const notYours = (): HttpError =>
  refused('This sign-in was not begun in this browser, was used, or took too long; begin again at GET /account/login.')

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

/** Takes a browser back: asks the provider who it is, and makes or finds the account. */
export async function returnSignIn(
  scope: SignInScope,
  back: { query: string; state: string; browser: string },
  now: number,
): Promise<Returned> {
  const [begun] = await scope.database.rows<{ id: string; sealed_checks: string; begun_at: Date }>(
    `UPDATE sign_ins SET returned_at = $3 WHERE state_hash = $1 AND browser_hash = $2 AND kind = 'provider'
     AND returned_at IS NULL AND expires_at > $3 RETURNING id, sealed_checks, begun_at`,
    [hashOf(back.state), hashOf(back.browser), new Date(now)],
  )
  if (!begun) throw notYours()
  const checks: SignInChecks = JSON.parse(scope.box.open(begun.sealed_checks, sealContextOf(begun.id)))
  const outcome = await scope.provider.finish(back.query, back.state, checks)
  if (outcome.kind === 'unreachable') {
    throw new HttpError('UPSTREAM_ERROR', 'The identity provider does not answer; begin again later.')
  }
  if (outcome.kind === 'refused') throw refused(`The sign-in was refused (${outcome.reason}); begin again.`)
  return scope.database.transaction(async query => {
    const accountId = await accountOf(query, scope, outcome.identity, { begunAt: begun.begun_at, now })
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
  return sessions.open(
    async query => {
      const [row] = await query<{ account_id: string }>(
        `UPDATE sign_ins SET exchanged_at = $3 WHERE code_hash = $1 AND browser_hash = $2 AND exchanged_at IS NULL
       AND expires_at > $3 RETURNING account_id`,
        [hashOf(code), hashOf(browser), new Date(now)],
      )
      if (!row) throw notYours()
      return row.account_id
    },
    now,
    address,
  )
}

/** The account of an identity; made at its first sign-in. */
async function accountOf(
  query: Query,
  { mail }: SignInScope,
  identity: Identity,
  { begunAt, now }: { begunAt: Date; now: number },
): Promise<string> {
  const { issuer, subject, email = null, isEmailVerified } = identity
  // Two first sign-ins of one person run one after the other.
  await query('SELECT pg_advisory_xact_lock(hashtextextended($1, 1))', [JSON.stringify([issuer, subject])])
  const [known] = await query<{
    id: string
    disabled_at: Date | null
    email_verified_at: Date | null
    is_signed_out: boolean | null
  }>(
    `SELECT a.id, a.disabled_at, a.email_verified_at, a.signed_out_at >= $3 AS is_signed_out
     FROM identities i JOIN accounts a ON a.id = i.account_id
     WHERE i.issuer = $1 AND i.subject = $2 FOR NO KEY UPDATE OF a`,
    [issuer, subject, begunAt],
  )
  if (known?.is_signed_out) throw notYours()
  if (known?.disabled_at) throw new HttpError('AUTH_ACCOUNT_DISABLED', 'This account is disabled.')
  const accountId = known?.id ?? (await createAccount(query, identity, now))
  if (known?.email_verified_at || email === null) return accountId
  if (isEmailVerified) {
    await query('UPDATE accounts SET email = $2, email_verified_at = $3 WHERE id = $1', [
      ...[accountId, email, new Date(now)],
    ])
  } else if (!known && mail) await sendVerification(query, mail, { accountId, email, now })
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

/** What linking works with. */
export interface PlatformScope {
  database: Database
  platform: PlatformProvider
  /** Undefined when no mail can be sent. */
  mail: MailScope | undefined
}

/** Begins: where the browser goes, and what it carries until it is back. */
export async function beginPlatformLink(
  { database, platform }: PlatformScope,
  origin: Origin,
  now: number,
): Promise<{ url: string; browser: string; expiresAt: number }> {
  const [state, browser, expiresAt] = [newText(), newText(), now + SIGN_IN_LIFE_MS]
  await database.transaction(async query => {
    await lockForOwner(query, origin)
    await query(
      `INSERT INTO sign_ins (id, kind, state_hash, browser_hash, account_id, begun_at, expires_at)
       VALUES ($1, 'platform', $2, $3, $4, $5, $6)`,
      [crypto.randomUUID(), hashOf(state), hashOf(browser), origin.accountId, new Date(now), new Date(expiresAt)],
    )
  })
  return { url: platform.begin(state), browser, expiresAt }
}

/** Takes a browser back and links the platform account that it is signed in to. */
export async function finishPlatformLink(
  { database, platform, mail }: PlatformScope,
  back: { query: string; state: string; browser: string; address?: string | undefined },
  now: number,
): Promise<{ platformId: string; linkedAt: number }> {
  const [begun] = await database.rows<{ id: string; account_id: string }>(
    `UPDATE sign_ins SET returned_at = $3 WHERE state_hash = $1 AND browser_hash = $2 AND kind = 'platform'
     AND returned_at IS NULL AND exchanged_at IS NULL AND expires_at > $3 RETURNING id, account_id`,
    [hashOf(back.state), hashOf(back.browser), new Date(now)],
  )
  if (!begun) throw linkNotYours()
  const outcome = await platform.finish(back.query, back.state, now)
  if (outcome.kind === 'unreachable')
    throw new HttpError('UPSTREAM_ERROR', 'The platform does not answer; begin again.')
  if (outcome.kind === 'refused') {
    throw new HttpError('SIGN_IN_REFUSED', `The platform did not confirm the sign-in (${outcome.reason}); begin again.`)
  }
  const { platformId } = outcome
  const { id, account_id: accountId } = begun
  await database.transaction(async query => {
    // The account first, as by all that ends sign-ins, which may have happened while the platform was asked.
    await query('SELECT 1 FROM accounts WHERE id = $1 FOR NO KEY UPDATE', [accountId])
    const claimed = await query(
      'UPDATE sign_ins SET exchanged_at = $2 WHERE id = $1 AND exchanged_at IS NULL RETURNING id',
      [id, new Date(now)],
    )
    if (claimed.length === 0) throw linkNotYours()
    await query(
      `INSERT INTO platform_links (account_id, platform_id, linked_at) VALUES ($1, $2, $3)
       ON CONFLICT (account_id) DO UPDATE SET platform_id = EXCLUDED.platform_id, linked_at = EXCLUDED.linked_at`,
      [accountId, platformId, new Date(now)],
    )
    await recordAudit(query, { kind: 'platform.linked', at: now, accountId, address: back.address })
    if (mail) await tellPlatformChange(query, mail, { accountId, isLinked: true })
  })
  return { platformId, linkedAt: now }
}

const linkNotYours = (): HttpError =>
  refused('This link was not begun in this browser, was used or ended, or took too long; begin again.')

/** Removes the link; refuses when there is none. */
export async function unlinkPlatform(
  { database, mail }: Pick<PlatformScope, 'database' | 'mail'>,
  origin: Origin,
  now: number,
): Promise<void> {
  const { accountId } = origin
  await database.transaction(async query => {
    await lockForOwner(query, origin)
    const gone = await query('DELETE FROM platform_links WHERE account_id = $1 RETURNING account_id', [accountId])
    if (gone.length === 0) throw new HttpError('NOT_FOUND', 'No platform account is linked.')
    await recordAction(query, origin, { kind: 'platform.unlinked', at: now })
    if (mail) await tellPlatformChange(query, mail, { accountId, isLinked: false })
  })
}

/** Links an account on the game's platform to an account that has none. */
export async function linkPlatformAccount(database: Database, accountId: string, platformId: string): Promise<void> {
  await database.rows(
    'INSERT INTO platform_links (account_id, platform_id, linked_at) VALUES ($1, $2, now()) ON CONFLICT DO NOTHING',
    [accountId, platformId],
  )
}

/** What of sign-in is configured; a missing setting disables what needs it and nothing else. */
interface SignInParts {
  /** Undefined: sign-in is not configured. */
  signIn: SignInScope | undefined
  /** Undefined: platform links are not configured. */
  platformSignIn: PlatformScope | undefined
  /** Undefined: mail is not configured. */
  mail: MailScope | undefined
}

/** Opens what sign-in, sessions, verification mails and platform links work with. No connection: providers are called at sign-in. */
export function openSignIn(
  config: Pick<PlatformConfig, 'baseUrl' | 'secretKey' | 'signIn' | 'platformSignInUrl' | 'smtpUrl'>,
  database: Database,
  now: () => number,
): SignInParts {
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
