/**
 * What takes longer than other requests: folds of ledgers, their daily values, and imports.
 *
 * Invariant: a process runs {@link AT_ONCE} at a time, one of an account; how many wait is bounded by account and in all. What takes a
 * transaction has connections of its own, so that no other write waits for it, and all leaves the event loop to others every few
 * milliseconds.
 */
import PQueue from 'p-queue'
import { HttpError } from '#infra/http/http-error.ts'
import type { Database } from '#infra/postgres/pool.ts'
import { openSerialQueues } from '#services/portfolios/commands.ts'

/** Runs long work. */
export interface LongWork {
  /** With a connection for each that runs. */
  database: Database
  /** Runs work when that of its account before it is done, and there is room. */
  add<T>(accountId: string, work: () => Promise<T>): Promise<T>
}

/** Of a process. */
export const AT_ONCE = 2
const WAITING_MAX = 256
const ACCOUNT_WAITING_MAX = 8

/** Opens the queue of a process. */
export function openLongWork(database: Database): LongWork {
  const ofAccounts = openSerialQueues(
    ACCOUNT_WAITING_MAX,
    'Too much work of this account waits already; try again soon.',
  )
  const queue = new PQueue({ concurrency: AT_ONCE })
  return {
    database,
    add: (accountId, work) =>
      ofAccounts.add(accountId, () => {
        if (queue.size < WAITING_MAX) return queue.add(work)
        throw new HttpError('SERVICE_UNAVAILABLE', 'Too much work waits already; try again soon.')
      }),
  }
}
