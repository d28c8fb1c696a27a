/**
 * Limits of what costs more than other requests: how much of it an account may ask for, and how much runs at a time.
 *
 * Invariant: of long work (folds of ledgers, their daily values, imports) a process runs {@link AT_ONCE} at a time, one of an account; how
 * many wait is bounded by account and in all. What takes a transaction has connections of its own, so that no other write waits for
 * it, and all leaves the event loop to others every few milliseconds.
 */
import PQueue from 'p-queue'
import type { Tier, TierLimits } from '#infra/config/tiers.ts'
import type { Credential } from '#infra/http/credential.ts'
import { HttpError } from '#infra/http/http-error.ts'
import type { Database } from '#infra/postgres/pool.ts'
import type { RateLimit } from '#infra/redis/rate-limit.ts'
import { openSerialQueues } from '#infra/runtime/async/serial-queues.ts'
import { exceededLimit } from '#schemas/api/rate-limit.ts'

/** Up to so many rows a request costs no more than others. */
const FEW_ROWS = 1_000

export const EXPENSIVE =
  'Counts also on the account, over all of its keys: 20 a minute on free, 40 on starter, 60 above.'

/** The same of requests that count where what they concern is large. */
export const EXPENSIVE_IF_LARGE = `Of more than ${FEW_ROWS} rows it c${EXPENSIVE.slice(1)}`

export const openAccountBudget = (limit: RateLimit, tiers: Record<Tier, TierLimits>) => ({
  /** Counts one; throws the 429 when the account has had its share of the minute. One of `rows` counts where these are many. */
  async charge({ accountId, tier }: Credential, rows = Number.POSITIVE_INFINITY): Promise<void> {
    if (rows <= FEW_ROWS) return
    const most = tiers[tier].expensive_requests_per_minute
    const waitSeconds = await limit.charge(accountId, most)
    if (waitSeconds === undefined) return
    const detail = `An account may send ${most} requests of this kind a minute, over all of its keys; wait as Retry-After says.`
    throw new HttpError('RATE_LIMIT_EXCEEDED', detail, {
      exceeded: exceededLimit('expensive', most, waitSeconds, 60),
    })
  },
})

/** Of a process. */
export const AT_ONCE = 2
const WAITING_MAX = 256
const ACCOUNT_WAITING_MAX = 8

export function openLongWork(database: Database) {
  const ofAccounts = openSerialQueues(ACCOUNT_WAITING_MAX, () => {
    return new HttpError('SERVICE_UNAVAILABLE', 'Too much work of this account waits already; try again soon.')
  })
  const queue = new PQueue({ concurrency: AT_ONCE })
  return {
    /** With a connection for each that runs. */
    database,
    /** Runs work when that of its account before it is done, and there is room. */
    add: <T>(accountId: string, work: () => Promise<T>): Promise<T> =>
      ofAccounts.add(accountId, () => {
        if (queue.size < WAITING_MAX) return queue.add(work)
        throw new HttpError('SERVICE_UNAVAILABLE', 'Too much work waits already; try again soon.')
      }),
  }
}
