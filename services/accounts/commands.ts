/**
 * E-mail addresses of accounts, the one-time links that prove them, and whether alerts come by e-mail.
 *
 * Writes email_links and the address of accounts; queues mails in the same transaction. States of a link:
 * sent -> used | expired. Invariant: an address counts as verified only when its link was opened or when an
 * identity provider or the operator says so; an account's verified address stays until another is verified. Mails are bounded
 * per account and per address, since the address is a stranger's until it is proven.
 */
import type { Tier } from '#infra/config/tiers.ts'
import { HttpError } from '#infra/http/http-error.ts'
import type { Mail } from '#infra/mail/mailer.ts'
import { addJob } from '#infra/postgres/jobs.ts'
import type { Database, Query } from '#infra/postgres/pool.ts'
import type { SealedBox } from '#infra/runtime/sealed-box.ts'
import { exceededLimit } from '#schemas/api/rate-limit.ts'
import { hashOf, newText } from './one-time-text.ts'
import { SEND_MAIL } from './reader.ts'

/** How verification mails are made. */
export interface MailScope {
  box: SealedBox
  /** Public root of the API. */
  baseUrl: string
}

const HOUR_MS = 3_600_000
const LINK_LIFE_MS = 24 * HOUR_MS
const KEPT_MS = 48 * HOUR_MS
const PER_ACCOUNT_AND_HOUR = 5
const PER_ADDRESS_AND_DAY = 5
const PREFIX = 'verify_'

/** An account that is locked until the transaction ends. */
export interface LockedAccount {
  tier: Tier
  hasEmail: boolean
  isEmailVerified: boolean
  /** Alerts by e-mail are on; they come to a verified address alone. */
  wantsAlertEmails: boolean
}

/** Locks an account: of two transactions that count or change what belongs to it the second sees what the first did. */
export async function lockAccount(query: Query, accountId: string): Promise<LockedAccount> {
  const [account] = await query<{ tier: Tier; has_email: boolean; is_verified: boolean; wants_emails: boolean }>(
    `SELECT tier, email IS NOT NULL AS has_email, email_verified_at IS NOT NULL AS is_verified,
       alert_emails_off_at IS NULL AS wants_emails
     FROM accounts WHERE id = $1 FOR NO KEY UPDATE`,
    [accountId],
  )
  if (!account) throw new Error(`there is no account ${accountId}`)
  const { tier, has_email: hasEmail, is_verified: isEmailVerified, wants_emails: wantsAlertEmails } = account
  return { tier, hasEmail, isEmailVerified, wantsAlertEmails }
}

/** Sends a link to an address within the transaction of `query`; throws a 429 when the account asks too often. */
export async function sendVerification(
  query: Query,
  scope: MailScope,
  { accountId, email, now }: { accountId: string; email: string; now: number },
): Promise<void> {
  // Two requests of one account run one after the other, so that both are counted.
  await lockAccount(query, accountId)
  await query('DELETE FROM email_links WHERE expires_at < $1', [new Date(now - KEPT_MS)])
  const [sent] = await query<{ by_account: number; by_address: number }>(
    `SELECT count(*) FILTER (WHERE account_id = $1 AND created_at > $3)::int AS by_account,
       count(*) FILTER (WHERE lower(email) = lower($2))::int AS by_address
     FROM email_links WHERE created_at > $4 AND (account_id = $1 OR lower(email) = lower($2))`,
    [accountId, email, new Date(now - HOUR_MS), new Date(now - LINK_LIFE_MS)],
  )
  if (sent && (sent.by_account >= PER_ACCOUNT_AND_HOUR || sent.by_address >= PER_ADDRESS_AND_DAY)) {
    const detail = `At most ${PER_ACCOUNT_AND_HOUR} verification mails go out per account and hour; look into the mailbox first.`
    throw new HttpError('RATE_LIMIT_EXCEEDED', detail, {
      exceeded: exceededLimit('verification-mails', PER_ACCOUNT_AND_HOUR, HOUR_MS / 1000, HOUR_MS / 1000),
    })
  }
  const token = newText(PREFIX)
  await query(
    'INSERT INTO email_links (token_hash, account_id, email, created_at, expires_at) VALUES ($1, $2, $3, $4, $5)',
    [hashOf(token), accountId, email, new Date(now), new Date(now + LINK_LIFE_MS)],
  )
  await queueMail(query, scope.box, mailOf(email, `${scope.baseUrl}/v1/account/email/verify?token=${token}`))
}

function mailOf(to: string, link: string) {
  const why = 'Somebody, probably you, gave this address for a marketlog account.'
  const what = 'Open this link within a day to confirm it; if it was not you, leave it.'
  return {
    to,
    subject: 'Confirm your e-mail address',
    text: `${why}\n${what}\n\n${link}\n`,
    html: `<p>${why}<br>${what}</p><p><a href="${link}">Confirm this address</a></p>`,
  }
}

/** Uses a link: its address becomes the account's verified one; refuses a link that is used or expired. */
export async function useLink(query: Query, token: string, now: number): Promise<UsedLink> {
  const [link] = await query<{ account_id: string; email: string }>(
    `UPDATE email_links SET used_at = $2 WHERE token_hash = $1 AND used_at IS NULL AND expires_at > $2
     RETURNING account_id, email`,
    [hashOf(token), new Date(now)],
  )
  if (!link) throw new HttpError('NOT_FOUND', 'This link was used, has expired, or was never sent; ask for another.')
  const former = await verifiedAddress(query, link.account_id)
  await query('UPDATE accounts SET email = $2, email_verified_at = $3 WHERE id = $1', [
    ...[link.account_id, link.email, new Date(now)],
  ])
  // Links that were sent to other addresses meanwhile must not replace it later.
  await query('UPDATE email_links SET used_at = $2 WHERE account_id = $1 AND used_at IS NULL', [
    ...[link.account_id, new Date(now)],
  ])
  return { email: link.email, accountId: link.account_id, former: former === link.email ? undefined : former }
}

/** An address that was confirmed. */
interface UsedLink {
  email: string
  accountId: string
  /** The verified address that it replaced. */
  former: string | undefined
}

/** The verified address of an account, to which mails go; its row is locked until the transaction ends. */
async function verifiedAddress(query: Query, accountId: string): Promise<string | undefined> {
  const [account] = await query<{ email: string }>(
    'SELECT email FROM accounts WHERE id = $1 AND email_verified_at IS NOT NULL FOR NO KEY UPDATE',
    [accountId],
  )
  return account && account.email !== LOCAL_ADDRESS ? account.email : undefined
}

/** Tells an address that it was replaced: who took an account over would not. */
export async function tellFormerAddress(query: Query, scope: MailScope, former: string): Promise<void> {
  await queueMail(query, scope.box, {
    ...warningOf('The e-mail address of your marketlog account was changed', scope.baseUrl),
    to: former,
  })
}

/** Tells an account's verified address, where it has one, that its platform account was linked or unlinked. */
export async function tellPlatformChange(
  query: Query,
  scope: MailScope,
  { accountId, isLinked }: { accountId: string; isLinked: boolean },
): Promise<void> {
  const to = await verifiedAddress(query, accountId)
  if (to === undefined) return
  const what = isLinked ? 'A platform account was linked to' : 'The platform account was unlinked from'
  await queueMail(query, scope.box, { ...warningOf(`${what} your marketlog account`, scope.baseUrl), to })
}

function warningOf(subject: string, baseUrl: string): Omit<Mail, 'to'> {
  const advice =
    'If it was not you, sign in, end all sessions (POST /v1/account/session/revoke-all) and reissue your key.'
  const login = `${baseUrl}/v1/account/login`
  return {
    subject,
    text: `${subject}.\n${advice}\n\n${login}\n`,
    html: `<p>${subject}.<br>${advice}</p><p><a href="${login}">Sign in</a></p>`,
  }
}

/** Switches alerts by e-mail on or off; false when there is no such account. */
export async function setAlertEmails(
  query: Query,
  accountId: string,
  { isOn, now }: { isOn: boolean; now: number },
): Promise<boolean> {
  const changed = await query(
    `UPDATE accounts SET alert_emails_off_at = CASE WHEN $2 THEN NULL ELSE coalesce(alert_emails_off_at, $3) END
      WHERE id = $1 RETURNING id`,
    [accountId, isOn, new Date(now)],
  )
  return changed.length > 0
}

/** Address of accounts that were made without one; no mail reaches it (RFC 6761, 6.3). */
export const LOCAL_ADDRESS = 'account@marketlog.localhost'

/** Gives accounts of earlier versions, which have no address, the local one. */
export async function completeAccount(database: Database, accountId: string): Promise<void> {
  await database.rows('UPDATE accounts SET email = $2, email_verified_at = now() WHERE id = $1 AND email IS NULL', [
    accountId,
    LOCAL_ADDRESS,
  ])
}

const MAX_ATTEMPTS = 8

/** Queues a mail within the transaction of `query`. */
const queueMail = (query: Query, box: SealedBox, mail: Mail): Promise<void> =>
  addJob(query, SEND_MAIL, { sealed: box.seal(JSON.stringify(mail), SEND_MAIL) }, { maxAttempts: MAX_ATTEMPTS })
