/**
 * What an account is, who may sign in to it, how its alerts reach it, and how its mails are read back from their jobs.
 *
 * Reads accounts, identities, sessions and platform_links, writes nothing. Payloads of mails are sealed, since a mail may carry a one-time link and
 * jobs are stored in the database.
 */
import { HttpError } from '#infra/http/http-error.ts'
import type { Mail } from '#infra/mail/mailer.ts'
import type { Database, Query } from '#infra/postgres/pool.ts'
import { slicesById } from '#infra/postgres/slices.ts'
import type { SealedBox } from '#infra/runtime/sealed-box.ts'

/** An account; times in milliseconds since the epoch. */
export interface AccountRecord {
  id: string
  name: string | null
  tier: string
  createdAt: number
  email: string | null
  isEmailVerified: boolean
  platformId: string | null
}

/** A credential that was accepted a moment ago may be of an account that is deleted now. */
export const accountGone = (): HttpError =>
  new HttpError('AUTH_INVALID_API_KEY', 'The account of this key was deleted.')

/** Reads an account. */
export async function readAccount(database: Database, accountId: string): Promise<AccountRecord> {
  const [row] = await database.rows<{
    name: string | null
    tier: string
    created_at: Date
    email: string | null
    is_verified: boolean
    platform_id: string | null
  }>(
    `SELECT a.name, a.tier, a.created_at, a.email, a.email_verified_at IS NOT NULL AS is_verified, p.platform_id
     FROM accounts a LEFT JOIN platform_links p ON p.account_id = a.id WHERE a.id = $1`,
    [accountId],
  )
  if (!row) throw accountGone()
  return {
    id: accountId,
    name: row.name,
    tier: row.tier,
    createdAt: row.created_at.getTime(),
    email: row.email,
    isEmailVerified: row.is_verified,
    platformId: row.platform_id,
  }
}

/** Who may sign in to an account: a subject of an OpenID provider. */
interface IdentityRecord {
  issuer: string
  subject: string
  created_at: Date
}

/** The identities of an account. */
export const listIdentities = (database: Database, accountId: string): Promise<IdentityRecord[]> =>
  database.rows('SELECT issuer, subject, created_at FROM identities WHERE account_id = $1 ORDER BY 1, 2', [accountId])

/** A session as it is stored. */
interface SessionRecord {
  id: string
  created_at: Date
  expires_at: Date
  revoked_at: Date | null
}

/** The sessions of an account by id, those that have ended too; they are kept for a day after they expire. */
export const sessionSlices = (database: Database, accountId: string): AsyncGenerator<SessionRecord[]> =>
  slicesById(database.rows, 'SELECT id, created_at, expires_at, revoked_at FROM sessions WHERE account_id = $1', {
    values: [accountId],
  })

/** The account on the game's platform that is linked to an account. */
export async function readPlatformId(query: Query, accountId: string): Promise<string | undefined> {
  const [link] = await query<{ platform_id: string }>('SELECT platform_id FROM platform_links WHERE account_id = $1', [
    accountId,
  ])
  return link?.platform_id
}

/** How the alerts of an account reach it; by no channel while it is disabled. */
export interface AlertRecipient {
  /** Its address, when it is verified and alerts by e-mail are on. */
  mailAddress: string | null
  getsWebhooks: boolean
}

/** The recipients of alerts by account id. */
export async function readAlertRecipients(
  query: Query,
  accountIds: readonly string[],
): Promise<Map<string, AlertRecipient>> {
  const rows = await query<{ id: string; address: string | null; gets_webhooks: boolean }>(
    `SELECT id, disabled_at IS NULL AND tier = 'quant' AS gets_webhooks, CASE WHEN disabled_at IS NULL
       AND email_verified_at IS NOT NULL AND alert_emails_off_at IS NULL THEN email END AS address
     FROM accounts WHERE id = ANY ($1::uuid[])`,
    [accountIds],
  )
  return new Map(rows.map(row => [row.id, { mailAddress: row.address, getsWebhooks: row.gets_webhooks }]))
}

/** The job that sends a mail of an account. */
export const SEND_MAIL = 'send-mail'

/** The mail of a job's payload; throws when it was not sealed with this key. */
export function mailOfJob(payload: unknown, box: SealedBox): Mail {
  const { sealed } = payload as { sealed: string }
  return JSON.parse(box.open(sealed, SEND_MAIL)) as Mail
}
