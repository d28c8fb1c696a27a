/**
 * A sign-in, from the browser's redirect to the session: the returning identity gets an account, or an account its link to one of the
 * game's platform.
 *
 * Writes sign_ins, identities, platform_links and accounts. States: begun -> returned -> exchanged (for a session or a link); each step
 * once, within its time, in the browser that began (its cookie), and none after the account's sessions were ended, which exchanges what is
 * its own and refuses what began before. Invariant: each step is claimed by one UPDATE before anything else happens, so of two attempts
 * one finds nothing; an identity (issuer and subject) belongs to one account. A new account gets a root key whose text is discarded: the
 * first usable one comes by reissue.
 */
import { HttpError } from '#infra/http/http-error.ts'
import { acquireAdvisoryLock, type Database, type Query } from '#infra/postgres/pool.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import { openSealedBox } from '#infra/runtime/sealed-box.ts'
import { type Identity, openIdentityProvider, type SignInChecks } from '#infra/sign-in/identity-provider.ts'
import { openPlatformProvider } from '#infra/sign-in/platform-provider.ts'
import { DAY_MS, MINUTE_MS } from '#schemas/values/instant.ts'
import { type Origin, recordAction, recordAudit } from '../audit/commands.ts'
import { hashOf, lockForOwner, newText, sendVerification, warnOfPlatformChange } from '../commands.ts'
import { insertKey } from '../keys/commands.ts'
import { openSessions } from '../sessions/commands.ts'
import { openSigningKeys } from '../sessions/signing-keys.ts'

export type SignInScope = NonNullable<ReturnType<typeof openSignIn>['signIn']>
export type PlatformScope = NonNullable<ReturnType<typeof openSignIn>['platformSignIn']>

/** The time that a browser may stay with the provider. */
export const SIGN_IN_LIFE_MS = 10 * MINUTE_MS
const EXCHANGE_LIFE_MS = 2 * MINUTE_MS
const UUID_BYTES = 16

const sealContextOf = (id: string): string => `sign_ins/${id}`

const REFUSALS = {
  provider:
    'This sign-in was not begun in this browser, was used, or took too long; begin again at GET /account/login.',
  platform: 'This link was not begun in this browser, was used or ended, or took too long; begin again.',
}

const refused = (detail: string): HttpError => new HttpError('SIGN_IN_REFUSED', detail)

const refusedAgain = (kind: keyof typeof REFUSALS): HttpError => refused(REFUSALS[kind])

interface Return {
  query: string
  state: string
  browser: string
}

/** Stores what begins with a state; returns the text for the cookie of its browser, and when both expire. */
async function insertSignIn(
  query: Query,
  begun: { kind: keyof typeof REFUSALS; state: string; accountId?: string; id?: string; sealedChecks?: string },
  now: number,
): Promise<{ browser: string; expiresAt: number }> {
  const { kind, state, accountId = null, id = crypto.randomUUID(), sealedChecks = null } = begun
  const [browser, expiresAt] = [newText(), now + SIGN_IN_LIFE_MS]
  await query(
    `INSERT INTO sign_ins (id, kind, state_hash, browser_hash, account_id, sealed_checks, begun_at, expires_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
    [id, kind, hashOf(state), hashOf(browser), accountId, sealedChecks, new Date(now), new Date(expiresAt)],
  )
  return { browser, expiresAt }
}

/** Claims a return that is the first, within its time, and of the browser that began; refuses any other. */
async function claimReturn(
  { rows }: Database,
  kind: keyof typeof REFUSALS,
  { state, browser }: Return,
  now: number,
): Promise<{ id: string; accountId: string | null; sealedChecks: string | null; begunAt: string }> {
  const [claimed] = await rows<Awaited<ReturnType<typeof claimReturn>>>(
    `UPDATE sign_ins SET returned_at = $3 WHERE state_hash = $1 AND browser_hash = $2 AND kind = $4
     AND returned_at IS NULL AND exchanged_at IS NULL AND expires_at > $3
     RETURNING id, account_id AS "accountId", sealed_checks AS "sealedChecks", begun_at AS "begunAt"`,
    [hashOf(state), hashOf(browser), new Date(now), kind],
  )
  if (!claimed) throw refusedAgain(kind)
  return claimed
}

/** Begins: where the browser goes, and what it carries until it is back. */
export async function beginSignIn(
  { database, box, provider }: SignInScope,
  now: number,
): Promise<{ url: string; browser: string }> {
  const begun = await provider.begin()
  if (!begun) throw new HttpError('UPSTREAM_ERROR', 'The identity provider does not answer; try again later.')
  const { url, state, checks } = begun
  const id = crypto.randomUUID()
  const sealedChecks = box.seal(JSON.stringify(checks), sealContextOf(id))
  const { browser } = await database.transaction(async query => {
    await query('DELETE FROM sign_ins WHERE expires_at < $1', [new Date(now - DAY_MS)])
    return insertSignIn(query, { kind: 'provider', state, id, sealedChecks }, now)
  })
  return { url, browser }
}

/** Asks the provider who came back, and makes or finds the account; the code, the only copy, is for POST /account/session. */
export async function returnSignIn(
  scope: SignInScope,
  back: Return,
  now: number,
): Promise<{ code: string; expiresAt: number; accountId: string }> {
  const begun = await claimReturn(scope.database, 'provider', back, now)
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

export function exchangeSignIn(
  { sessions }: SignInScope,
  { code, browser, address }: { code: string; browser: string; address?: string | undefined },
  now: number,
) {
  const claim = async (query: Query): Promise<string> => {
    const [signIn] = await query<{ accountId: string }>(
      `UPDATE sign_ins SET exchanged_at = $3 WHERE code_hash = $1 AND browser_hash = $2 AND exchanged_at IS NULL
       AND expires_at > $3 RETURNING account_id AS "accountId"`,
      [hashOf(code), hashOf(browser), new Date(now)],
    )
    if (!signIn) throw refusedAgain('provider')
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
  if (account?.isSignedOut) throw refusedAgain('provider')
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
  const accountId = account?.id as string
  await query('INSERT INTO identities (issuer, subject, account_id, created_at) VALUES ($1, $2, $3, $4)', [
    ...[issuer, subject, accountId, at],
  ])
  const lineage_id = hashOf(JSON.stringify([issuer, subject])).toString('hex', 0, UUID_BYTES)
  await insertKey(query, { accountId, kind: 'root', lineage_id, now })
  return accountId
}

/** Begins a link, as {@link beginSignIn}. The id of a platform account comes from the platform alone. */
export async function beginPlatformLink(
  { database, platform }: PlatformScope,
  origin: Origin,
  now: number,
): Promise<{ url: string; browser: string; expiresAt: number }> {
  const state = newText()
  const begun = await database.transaction(async query => {
    await lockForOwner(query, origin)
    return insertSignIn(query, { kind: 'platform', state, accountId: origin.accountId }, now)
  })
  return { url: platform.begin(state), ...begun }
}

/** Links the platform account that a browser, which came back, is signed in to. */
export async function finishPlatformLink(
  { database, platform, mail }: PlatformScope,
  back: Return & { address?: string | undefined },
  now: number,
): Promise<{ platformId: string; linkedAt: number }> {
  const { id, accountId } = (await claimReturn(database, 'platform', back, now)) as { id: string; accountId: string }
  const outcome = await platform.finish(back.query, back.state, now)
  if (outcome.kind === 'unreachable')
    throw new HttpError('UPSTREAM_ERROR', 'The platform does not answer; begin again.')
  if (outcome.kind === 'refused') {
    throw refused(`The platform did not confirm the sign-in (${outcome.reason}); begin again.`)
  }
  const { platformId } = outcome
  await database.transaction(async query => {
    // The account first, as by all that ends sign-ins, which may have happened while the platform was asked.
    await query('SELECT 1 FROM accounts WHERE id = $1 FOR NO KEY UPDATE', [accountId])
    const claimed = await query(
      'UPDATE sign_ins SET exchanged_at = $2 WHERE id = $1 AND exchanged_at IS NULL RETURNING id',
      [id, new Date(now)],
    )
    if (claimed.length === 0) throw refusedAgain('platform')
    await query(
      `INSERT INTO platform_links (account_id, platform_id, linked_at) VALUES ($1, $2, $3)
       ON CONFLICT (account_id) DO UPDATE SET platform_id = EXCLUDED.platform_id, linked_at = EXCLUDED.linked_at`,
      [accountId, platformId, new Date(now)],
    )
    await recordAudit(query, { kind: 'platform.linked', at: now, accountId, address: back.address })
    if (mail) await warnOfPlatformChange(query, mail, { accountId, isLinked: true })
  })
  return { platformId, linkedAt: now }
}

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
    if (mail) await warnOfPlatformChange(query, mail, { accountId, isLinked: false })
  })
}

export async function linkPlatformAccount(database: Database, accountId: string, platformId: string): Promise<void> {
  await database.rows(
    'INSERT INTO platform_links (account_id, platform_id, linked_at) VALUES ($1, $2, now()) ON CONFLICT DO NOTHING',
    [accountId, platformId],
  )
}

/**
 * Opens sign-in, sessions, verification mails and platform links; what is not configured is undefined, and disables what needs it and
 * nothing else. No connection: providers are called at sign-in. Without `mail` none can be sent.
 */
export function openSignIn(
  config: Pick<PlatformConfig, 'baseUrl' | 'secretKey' | 'signIn' | 'platformSignInUrl' | 'smtpUrl'>,
  database: Database,
  now: () => number,
) {
  const { baseUrl, secretKey, signIn, platformSignInUrl, smtpUrl } = config
  const box = secretKey === undefined ? undefined : openSealedBox(secretKey)
  const mail = box && smtpUrl !== undefined ? { box, baseUrl } : undefined
  return {
    mail,
    platformSignIn:
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
          },
    signIn: box &&
      signIn && {
        database,
        mail,
        box,
        provider: openIdentityProvider({ ...signIn, redirectUri: `${baseUrl}/v1/account/callback` }),
        sessions: openSessions({ database, keys: openSigningKeys(database, box), issuer: baseUrl, now }),
      },
  }
}
