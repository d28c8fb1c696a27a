/**
 * What an account may ask of what costs more than most requests: searches, folds and files of what it has stored.
 */
import type { Tier, TierLimits } from '#infra/config/tiers.ts'
import type { Credential } from '#infra/http/credential.ts'
import { HttpError } from '#infra/http/http-error.ts'
import type { RateLimit } from '#infra/redis/rate-limit.ts'
import { exceededLimit } from '#schemas/api/rate-limit.ts'

/** Counts expensive requests. */
export interface AccountBudget {
  /** Counts one; throws the 429 when the account has had its share of the minute. One of `rows` counts where these are many. */
  charge(credential: Credential, rows?: number): Promise<void>
}

/** Up to so many rows a request costs no more than others. */
const FEW_ROWS = 1_000

/** What is said of such requests where they are described. */
export const EXPENSIVE =
  'Counts also on the account, over all of its keys: 20 a minute on free, 40 on starter, 60 above.'

/** The same of requests that count where what they concern is large. */
export const EXPENSIVE_IF_LARGE = `Of more than ${FEW_ROWS} rows it c${EXPENSIVE.slice(1)}`

/** Opens the budget of all accounts. */
export const openAccountBudget = (limit: RateLimit, tiers: Record<Tier, TierLimits>): AccountBudget => ({
  async charge({ accountId, tier }, rows = Number.POSITIVE_INFINITY) {
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
