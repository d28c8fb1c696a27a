/**
 * A mail as a job: queued in the transaction that makes it necessary, sent by the worker of the task.
 *
 * Adds jobs of the task `send-mail`. Invariant: the payload is sealed, since a mail may carry a one-time link and
 * jobs are stored in the database; a job whose mail did not leave is tried again by the queue.
 */
import { addJob } from '../postgres/jobs.ts'
import type { Query } from '../postgres/pool.ts'
import type { SealedBox } from '../runtime/sealed-box.ts'
import type { Mail } from './mailer.ts'

/** Name of the task. */
export const SEND_MAIL = 'send-mail'

const MAX_ATTEMPTS = 8

/** Queues a mail within the transaction of `query`. */
export const queueMail = (query: Query, box: SealedBox, mail: Mail): Promise<void> =>
  addJob(query, SEND_MAIL, { sealed: box.seal(JSON.stringify(mail), SEND_MAIL) }, { maxAttempts: MAX_ATTEMPTS })

/** The mail of a job's payload; throws when it was not sealed with this key. */
export function mailOfJob(payload: unknown, box: SealedBox): Mail {
  const { sealed } = payload as { sealed: string }
  return JSON.parse(box.open(sealed, SEND_MAIL)) as Mail
}
