/**
 * Accounts, who may sign in to them, how their alerts reach them, and how their mails are read back from their jobs.
 *
 * Reads accounts, identities, sessions and platform_links, writes nothing. Payloads of mails are sealed, since a mail may carry a one-time link and
 * jobs are stored in the database. Moments are ISO 8601.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { z } from 'zod'
import { HttpError } from '#infra/http/http-error.ts'
import type { Mail } from '#infra/mail/mailer.ts'
import { type Database, type Query, slicesById } from '#infra/postgres/pool.ts'
import type { SealedBox } from '#infra/runtime/sealed-box.ts'
import type { accountReply } from '#schemas/api/sign-in.ts'

/** A credential that was accepted a moment ago may be of an account that is deleted now. */
export const accountGone = (): HttpError =>
  new HttpError('AUTH_INVALID_API_KEY', 'The account of this key was deleted.')

export async function readAccount(database: Database, accountId: string) {
  const [account] = await database.rows<z.infer<typeof accountReply>>(
    `SELECT a.id, a.name, a.tier, a.email, a.created_at, a.email_verified_at IS NOT NULL AS email_verified, p.platform_id
     FROM accounts a LEFT JOIN platform_links p ON p.account_id = a.id WHERE a.id = $1`,
    [accountId],
  )
  if (!account) throw accountGone()
  return account
}

/** Who may sign in to an account: subjects of OpenID providers. */
export const listIdentities = (
  database: Database,
  accountId: string,
): Promise<{ issuer: string; subject: string; created_at: string }[]> =>
  database.rows('SELECT issuer, subject, created_at FROM identities WHERE account_id = $1 ORDER BY 1, 2', [accountId])

/** The sessions of an account by id, those that have ended too; they are kept for a day after they expire. */
export const sessionSlices = (database: Database, accountId: string) =>
  slicesById<{ id: string; created_at: string; expires_at: string; revoked_at: string | null }>(
    database.rows,
    'SELECT id, created_at, expires_at, revoked_at FROM sessions WHERE account_id = $1',
    [accountId],
  )

export async function readPlatformId(query: Query, accountId: string): Promise<string | undefined> {
  const [link] = await query<{ id: string }>('SELECT platform_id AS id FROM platform_links WHERE account_id = $1', [
    accountId,
  ])
  return link?.id
}

/** The channels of alerts by account id; of a disabled account none, and no address that is not verified or wants no alerts. */
export async function readAlertRecipients(query: Query, accountIds: readonly string[]) {
  const rows = await query<{ id: string; mailAddress: string | null; getsWebhooks: boolean }>(
    `SELECT id, disabled_at IS NULL AND tier = 'quant' AS "getsWebhooks", CASE WHEN disabled_at IS NULL
       AND email_verified_at IS NOT NULL AND alert_emails_off_at IS NULL THEN email END AS "mailAddress"
     FROM accounts WHERE id = ANY ($1::uuid[])`,
    [accountIds],
  )
  return new Map(rows.map(({ id, ...recipient }) => [id, recipient]))
}

export const SEND_MAIL = 'send-mail'

/** The mail of a job's payload; throws when it was not sealed with this key. */
export function mailOfJob(payload: unknown, box: SealedBox): Mail {
  const { sealed } = payload as { sealed: string }
  return JSON.parse(box.open(sealed, SEND_MAIL)) as Mail
}

/** The link at the end of a mail by which its receiver ends such mails, without signing in. */
export type UnsubscribeLinks = ReturnType<typeof openUnsubscribeLinks>

const ID_BYTES = 16
const TAG_BYTES = 16
const TOKEN = /^[A-Za-z0-9_-]{43}$/

export const UNSUBSCRIBE_PATH = '/v1/unsubscribe'

/**
 * Opens links below a public root; `secretKey` is the environment's, and only its holder can make a token. A token names one account
 * and one kind of mail, holds no address and does not expire, since mails are kept for years.
 */
export function openUnsubscribeLinks(secretKey: string, baseUrl: string) {
  // A key of its own, so that a token is of no use anywhere else.
  const key = createHmac('sha256', Buffer.from(secretKey, 'base64')).update('unsubscribe alert mails').digest()
  const tagOf = (id: Buffer): Buffer => createHmac('sha256', key).update(id).digest().subarray(0, TAG_BYTES)
  return {
    linkFor(accountId: string): string {
      const id = Buffer.from(accountId.replaceAll('-', ''), 'hex')
      return `${baseUrl}${UNSUBSCRIBE_PATH}?token=${Buffer.concat([id, tagOf(id)]).toString('base64url')}`
    },
    /** The account of a token; undefined when it was not made with this key. */
    accountOf(token: string): string | undefined {
      const bytes = TOKEN.test(token) ? Buffer.from(token, 'base64url') : Buffer.alloc(0)
      if (bytes.length !== ID_BYTES + TAG_BYTES) return undefined
      const id = bytes.subarray(0, ID_BYTES)
      if (!timingSafeEqual(bytes.subarray(ID_BYTES), tagOf(id))) return undefined
      return id.toString('hex').replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, '$1-$2-$3-$4-$5')
    },
  }
}
