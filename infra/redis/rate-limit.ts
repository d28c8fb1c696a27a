/**
 * Counts requests by a subject and minute, over all processes: by an account what costs more than most, over all of its keys, and by an
 * address what comes without a valid key.
 *
 * Writes one counter per subject and minute through rate-limiter-flexible. A subject that is over its limit is refused from memory until
 * its minute ends, and while Redis is lost each process counts for itself: requests are never uncounted and cost a lost server nothing.
 */
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import { networkOf } from '#infra/runtime/trusted-proxies.ts'
import type { Redis } from './redis.ts'

export type RateLimit = ReturnType<typeof openRateLimit>

export function openRateLimit(redis: Redis, keyPrefix: string) {
  const limiters = new Map<number, RateLimiterRedis>()
  const limiterOf = (perMinute: number): RateLimiterRedis => {
    const limit = { points: perMinute, duration: 60 }
    const limiter =
      limiters.get(perMinute) ??
      new RateLimiterRedis({
        ...limit,
        storeClient: redis,
        keyPrefix,
        rejectIfRedisNotReady: true,
        inMemoryBlockOnConsumed: perMinute,
        insuranceLimiter: new RateLimiterMemory(limit),
      })
    limiters.set(perMinute, limiter)
    return limiter
  }
  return {
    /** Counts a request; the seconds to wait, at least 1, when its subject is over the limit. */
    async charge(subject: string, perMinute: number): Promise<number | undefined> {
      try {
        await limiterOf(perMinute).consume(subject)
        return undefined
      } catch (refused) {
        if (!(refused instanceof RateLimiterRes)) throw refused
        return Math.max(Math.ceil(refused.msBeforeNext / 1000), 1)
      }
    },
    /** Takes a request back that was not to be counted after all; never rejects. */
    async giveBack(subject: string, perMinute: number): Promise<void> {
      await limiterOf(perMinute)
        .reward(subject)
        .catch(() => undefined)
    },
  }
}

const BUDGETS = ['requests', 'credentials', 'sign-in', 'redirects', 'documents'] as const

/** Counts a request without a valid key; `credentials` are those that were refused. */
export type AddressBudget = (typeof BUDGETS)[number]

export type AddressLimit = ReturnType<typeof openAddressLimit>

/**
 * Opens the counts of a namespace by address. Each budget has `perMinute`, and they do not touch each other: who follows links or guesses
 * keys leaves sign-in open to others of the same address.
 */
export function openAddressLimit(redis: Redis, { prefix, perMinute }: { prefix: string; perMinute: number }) {
  const opened = BUDGETS.map(budget => [budget, openRateLimit(redis, `${prefix}address-${budget}`)])
  const limits: Record<AddressBudget, RateLimit> = Object.fromEntries(opened)
  return {
    perMinute,
    charge: (address = 'unknown', budget: AddressBudget) => limits[budget].charge(networkOf(address), perMinute),
    giveBack: (address = 'unknown', budget: AddressBudget) => limits[budget].giveBack(networkOf(address), perMinute),
  }
}
