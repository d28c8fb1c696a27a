/**
 * Accounts: their lock, their e-mail addresses and the one-time links that prove them, alerts by e-mail, and their end.
 *
 * Writes email_links and the address of accounts; queues mails in the same transaction. States of a link:
 * sent -> used | expired. Invariant: an address counts as verified only when its link was used or when an
 * identity provider or the operator says so; an account's verified address stays until another is verified. Mails are bounded
 * by the account that asks, and to one address more closely: what others ask never keeps an owner's mail back.
 */
import { hash, randomBytes } from 'node:crypto'
import type { Tier } from '#infra/config/tiers.ts'
import { HttpError } from '#infra/http/http-error.ts'
import type { Mail } from '#infra/mail/mailer.ts'
import { addJob } from '#infra/postgres/jobs.ts'
import type { Query } from '#infra/postgres/pool.ts'
import type { SealedBox } from '#infra/runtime/sealed-box.ts'
import { exceededLimit } from '#schemas/api/rate-limit.ts'
import { DAY_MS, HOUR_MS } from '#schemas/values/instant.ts'
import { hideAddressesOf, type Origin, recordAction } from './audit/commands.ts'
import { accountGone, SEND_MAIL } from './reader.ts'

export interface MailScope {
  box: SealedBox
  /** Public root of the API. */
  baseUrl: string
}

const LINK_LIFE_MS = DAY_MS
const KEPT_MS = 48 * HOUR_MS
const PER_HOUR = 5
const PER_DAY = 20
const PER_ADDRESS_AND_DAY = 5

/** Draws a text that proves something once, of 43 characters behind a prefix; only {@link hashOf} of it is stored. */
export const newText = (prefix = ''): string => prefix + randomBytes(32).toString('base64url')

/** SHA-256 of a text of 256 random bits, which needs no salt. */
export const hashOf = (text: string): Buffer => hash('sha256', text, 'buffer')

export type LockedAccount = Awaited<ReturnType<typeof lockAccount>>

/**
 * Locks an account until the transaction ends: of two that count or change what belongs to it the second sees what the first did. Alerts
 * by e-mail come to a verified address alone.
 */
export async function lockAccount(query: Query, accountId: string) {
  const [account] = await query<{
    tier: Tier
    hasEmail: boolean
    isEmailVerified: boolean
    wantsAlertEmails: boolean
  }>(
    `SELECT tier, email IS NOT NULL AS "hasEmail", email_verified_at IS NOT NULL AS "isEmailVerified",
       alert_emails_off_at IS NULL AS "wantsAlertEmails"
     FROM accounts WHERE id = $1 FOR NO KEY UPDATE`,
    [accountId],
  )
  if (!account) throw accountGone()
  return account
}

/** Locks the account of who asks; refuses a session that has ended since it was authenticated. */
export async function lockForOwner(
  query: Query,
  { accountId, sessionId }: Pick<Origin, 'accountId' | 'sessionId'>,
): Promise<LockedAccount> {
  const account = await lockAccount(query, accountId)
  await requireSession(query, { sessionId })
  return account
}

/** Refuses a session that has ended since it was authenticated; a key has none. */
export async function requireSession(query: Query, { sessionId }: Pick<Origin, 'sessionId'>): Promise<void> {
  if (sessionId === undefined) return
  const open = await query('SELECT 1 FROM sessions WHERE id = $1 AND revoked_at IS NULL', [sessionId])
  if (open.length > 0) return
  throw new HttpError('AUTH_INVALID_API_KEY', 'This session has ended; sign in again at GET /account/login.')
}

/** Sends a link to an address within the transaction of `query`, which has locked the account; throws a 429 when it asks too often. */
export async function sendVerification(
  query: Query,
  scope: MailScope,
  { accountId, email, now }: { accountId: string; email: string; now: number },
): Promise<void> {
  await query('DELETE FROM email_links WHERE expires_at < $1', [new Date(now - KEPT_MS)])
  await requireMailQuota(query, { accountId, email, now })
  const token = newText('verify_')
  await query(
    'INSERT INTO email_links (token_hash, account_id, email, created_at, expires_at) VALUES ($1, $2, $3, $4, $5)',
    [hashOf(token), accountId, email, new Date(now), new Date(now + LINK_LIFE_MS)],
  )
  await queueLink(query, scope.box, {
    to: email,
    subject: 'Confirm your e-mail address',
    lines: [
      'Somebody, probably you, gave this address for a marketlog account.',
      'Open this link within a day and confirm it there; if it was not you, leave it.',
    ],
    link: `${scope.baseUrl}/v1/account/email/verify?token=${token}`,
    label: 'Confirm this address',
  })
}

async function requireMailQuota(
  query: Query,
  { accountId, email, now }: Parameters<typeof sendVerification>[2],
): Promise<void> {
  const rows = await query<{ at: string; isSame: boolean }>(
    `SELECT created_at AS at, lower(email) = lower($2) AS "isSame" FROM email_links
     WHERE account_id = $1 AND created_at > $3 ORDER BY created_at DESC`,
    [accountId, email, new Date(now - DAY_MS)],
  )
  const sent = rows.map(({ at, isSame }) => ({ at: Date.parse(at), isSame }))
  const limits = [
    [sent.filter(({ at }) => at > now - HOUR_MS), PER_HOUR, HOUR_MS],
    [sent.filter(({ isSame }) => isSame), PER_ADDRESS_AND_DAY, DAY_MS],
    [sent, PER_DAY, DAY_MS],
  ] as const
  // The longest wait of those that are due.
  const [waitMs, most, windowMs] = limits
    .map(([mails, quota, ms]) => [(mails[quota - 1]?.at ?? -ms) + ms - now, quota, ms] as const)
    .reduce((longest, one) => (one[0] > longest[0] ? one : longest))
  if (waitMs <= 0) return
  const detail = `An account has ${PER_HOUR} verification mails an hour and ${PER_DAY} a day, ${PER_ADDRESS_AND_DAY} a day to one address; look into the mailbox first.`
  throw new HttpError('RATE_LIMIT_EXCEEDED', detail, {
    exceeded: exceededLimit('verification-mails', most, Math.ceil(waitMs / 1000), windowMs / 1000),
  })
}

/**
 * Uses a link: its address becomes the account's verified one, and the verified address that it replaces is returned; refuses a link
 * that is used or expired.
 */
export async function useLink(
  query: Query,
  token: string,
  now: number,
): Promise<{ accountId: string; former: string | undefined }> {
  // The account first, as by all that ends links.
  await query(
    'SELECT 1 FROM accounts WHERE id = (SELECT account_id FROM email_links WHERE token_hash = $1) FOR NO KEY UPDATE',
    [hashOf(token)],
  )
  const [link] = await query<{ accountId: string; email: string }>(
    `UPDATE email_links SET used_at = $2 WHERE token_hash = $1 AND used_at IS NULL AND expires_at > $2
     RETURNING account_id AS "accountId", email`,
    [hashOf(token), new Date(now)],
  )
  if (!link) throw new HttpError('NOT_FOUND', 'This link was used, has expired, or was never sent; ask for another.')
  const { accountId, email } = link
  const former = await verifiedAddress(query, accountId)
  await query('UPDATE accounts SET email = $2, email_verified_at = $3 WHERE id = $1', [
    ...[accountId, email, new Date(now)],
  ])
  // Links that were sent to other addresses meanwhile must not replace it later.
  await query('UPDATE email_links SET used_at = $2 WHERE account_id = $1 AND used_at IS NULL', [
    ...[accountId, new Date(now)],
  ])
  return { accountId, former: former === email ? undefined : former }
}

/** The verified address of an account, to which mails go; its row is locked until the transaction ends. */
async function verifiedAddress(query: Query, accountId: string): Promise<string | undefined> {
  const [account] = await query<{ email: string }>(
    'SELECT email FROM accounts WHERE id = $1 AND email_verified_at IS NOT NULL FOR NO KEY UPDATE',
    [accountId],
  )
  return account && account.email !== LOCAL_ADDRESS ? account.email : undefined
}

/** Warns an address that it was replaced: a thief of the account would not. */
export const warnFormerAddress = (query: Query, scope: MailScope, former: string): Promise<void> =>
  queueWarning(query, scope, former, 'The e-mail address of your marketlog account was changed')

/** Warns an account's verified address, where it has one, that its platform account was linked or unlinked. */
export async function warnOfPlatformChange(
  query: Query,
  scope: MailScope,
  { accountId, isLinked }: { accountId: string; isLinked: boolean },
): Promise<void> {
  const to = await verifiedAddress(query, accountId)
  const change = isLinked ? 'A platform account was linked to' : 'The platform account was unlinked from'
  if (to !== undefined) await queueWarning(query, scope, to, `${change} your marketlog account`)
}

const queueWarning = (query: Query, { box, baseUrl }: MailScope, to: string, subject: string): Promise<void> =>
  queueLink(query, box, {
    to,
    subject,
    link: `${baseUrl}/v1/account/login`,
    label: 'Sign in',
    lines: [
      `${subject}.`,
      'If it was not you, sign in, end all sessions (POST /v1/account/session/revoke-all) and reissue your key.',
    ],
  })

function queueLink(
  query: Query,
  box: SealedBox,
  { to, subject, lines, link, label }: Record<'to' | 'subject' | 'link' | 'label', string> & { lines: string[] },
): Promise<void> {
  const text = `${lines.join('\n')}\n\n${link}\n`
  const html = `<p>${lines.join('<br>')}</p><p><a href="${link}">${label}</a></p>`
  const mail: Mail = { to, subject, text, html }
  return addJob(query, SEND_MAIL, { sealed: box.seal(JSON.stringify(mail), SEND_MAIL) }, { maxAttempts: MAX_ATTEMPTS })
}

export async function setAlertEmails(
  query: Query,
  accountId: string,
  { isOn, now }: { isOn: boolean; now: number },
): Promise<void> {
  await query(
    `UPDATE accounts SET alert_emails_off_at = CASE WHEN $2 THEN NULL ELSE coalesce(alert_emails_off_at, $3) END
      WHERE id = $1`,
    [accountId, isOn, new Date(now)],
  )
}

/**
 * Locks an account that is to be deleted, once its owner has confirmed it by its address, or its id where it has none. Its entries of
 * the audit log stay under its id, which will name nobody, with pseudonyms of addresses.
 */
export async function beginDeletion(
  query: Query,
  origin: Origin,
  { confirm, now }: { confirm: string; now: number },
): Promise<void> {
  const { accountId } = origin
  await lockForOwner(query, origin)
  const [account] = await query<{ name: string }>(
    'SELECT coalesce(email, id::text) AS name FROM accounts WHERE id = $1',
    [accountId],
  )
  if (account?.name.toLowerCase() !== confirm.toLowerCase()) {
    const msg = 'Input should be the e-mail address of the account, or its id where it has none'
    throw new HttpError('VALIDATION_ERROR', [
      { type: 'value_error', loc: ['body', 'confirm'], msg, input: confirm, ctx: {} },
    ])
  }
  // An exchange that is under way ends before, and none comes later.
  await query('DELETE FROM sign_ins WHERE account_id = $1', [accountId])
  await recordAction(query, origin, { kind: 'account.deleted', at: now })
  await hideAddressesOf(query, accountId)
}

/** Deletes an account with all that refers to it, but for its alerts, which must be gone before. */
export async function deleteAccount(query: Query, accountId: string): Promise<void> {
  // In the order in which their use is written, so that neither waits for the other in a circle.
  await query('SELECT count(*) FROM (SELECT FROM api_keys WHERE account_id = $1 ORDER BY id FOR UPDATE) k', [accountId])
  await query('DELETE FROM accounts WHERE id = $1', [accountId])
}

/** Address of accounts that were made without one; no mail reaches it (RFC 6761, 6.3). */
export const LOCAL_ADDRESS = 'account@marketlog.localhost'

const MAX_ATTEMPTS = 8
