/**
 * Sends the mails of jobs: those of alert events, which are on record, and those of accounts.
 *
 * Sole writer of email_deliveries, with fan-out.ts; reads alert_events. Invariant: an event's mail is sent to the
 * address that is verified when it is sent, and ends as succeeded or failed; a transient failure is retried on the schedule of
 * webhooks. A crash between the server's answer and the record sends the same mail, with the same Message-ID, once more.
 */
import type { Mailer, MailOutcome } from '#infra/mail/mailer.ts'
import type { Database } from '#infra/postgres/pool.ts'
import type { SealedBox } from '#infra/runtime/sealed-box.ts'
import { mailOfJob, readAlertRecipients, type UnsubscribeLinks } from '#services/accounts/reader.ts'
import { pauseAfter } from './attempt-outcome.ts'
import { type AlertEvent, alertMail, EVENT_COLUMNS, eventBodyOf } from './event-body.ts'
import { queueAlertMail } from './store.ts'

export interface MailParts {
  database: Database
  mailer: Mailer
  /** Undefined without a key of the environment: no link can be signed and no job opened. */
  links: UnsubscribeLinks | undefined
  box: SealedBox | undefined
  /** Host of Message-IDs. */
  host: string
}

/** A lease, longer than a send takes: its owner alone sends the mail, and after its death the mail is due again. */
const DUE = `UPDATE email_deliveries d SET next_attempt_at = now() + interval '40 seconds'
  WHERE d.id = $1 AND d.status = 'pending' AND d.next_attempt_at <= now()
  RETURNING d.event_id, d.account_id, d.attempt_count`

const CONCLUDE = `UPDATE email_deliveries SET attempt_count = attempt_count + 1, status = $2::text, error = $3,
    next_attempt_at = CASE WHEN $2::text = 'pending' THEN now() + $4 * interval '1 millisecond' END,
    completed_at = CASE WHEN $2::text = 'pending' THEN NULL ELSE now() END
  WHERE id = $1 AND status = 'pending' RETURNING next_attempt_at`

/** Sends the mail of an event, once it is due and unless it was sent. */
export async function sendAlertMail(parts: MailParts, deliveryId: string): Promise<void> {
  const { database } = parts
  const [due] = await database.rows<{ event_id: string; account_id: string; attempt_count: number }>(DUE, [deliveryId])
  if (!due) {
    // Another process holds the lease, or held it and died: the mail is tried again when the lease expires.
    const [pending] = await database.rows<{ at: string }>(
      `SELECT next_attempt_at AS at FROM email_deliveries WHERE id = $1 AND status = 'pending'`,
      [deliveryId],
    )
    if (pending) await queueAlertMail(database.rows, deliveryId, pending.at)
    return
  }
  const outcome = await trySending(parts, due)
  await database.transaction(async query => {
    const isFinal = outcome.kind === 'sent' || outcome.isFinal
    const pauseMs = isFinal ? undefined : pauseAfter(due.attempt_count + 1, Math.random())
    const status = outcome.kind === 'sent' ? 'succeeded' : pauseMs === undefined ? 'failed' : 'pending'
    const error = outcome.kind === 'sent' ? null : outcome.error
    const [left] = await query<{ next_attempt_at: string | null }>(CONCLUDE, [deliveryId, status, error, pauseMs ?? 0])
    if (left?.next_attempt_at) await queueAlertMail(query, deliveryId, left.next_attempt_at)
  })
}

/** Sends a mail that another service has queued; rejects after a transient failure, so that the job runs again. */
export async function sendQueuedMail(
  { mailer, box }: Pick<MailParts, 'mailer' | 'box'>,
  payload: unknown,
): Promise<void> {
  if (!box) throw new Error('MARKETLOG_SECRET_KEY is not set, so queued mails cannot be opened')
  const outcome = await mailer.send(mailOfJob(payload, box))
  if (outcome.kind === 'failed' && !outcome.isFinal) throw new Error(outcome.error)
}

async function trySending(
  { database: { rows }, links, mailer, host }: MailParts,
  { event_id, account_id }: { event_id: string; account_id: string },
): Promise<MailOutcome> {
  const to = (await readAlertRecipients(rows, [account_id])).get(account_id)?.mailAddress
  if (to == null) return refused('The account has no verified address that wants alerts.')
  if (!links) return refused('MARKETLOG_SECRET_KEY is not set, so the link to unsubscribe cannot be signed.')
  const [event] = await rows<AlertEvent>(`SELECT ${EVENT_COLUMNS} FROM alert_events WHERE id = $1`, [event_id])
  if (!event) return refused('The event is no longer kept.')
  return mailer.send(alertMail(eventBodyOf(event), { to, host, unsubscribeUrl: links.linkFor(account_id) }))
}

const refused = (error: string): MailOutcome => ({ kind: 'failed', isFinal: true, error })
