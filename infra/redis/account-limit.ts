/**
 * Counts requests that cost more than most by their account, over all of its keys and over all processes.
 *
 * Writes one counter per account and minute through rate-limiter-flexible. While Redis is lost each process counts for itself.
 * An account that is over its limit is refused from memory until its minute ends.
 */
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import type { Redis } from './redis.ts'

/** Counts by account. */
export interface AccountLimit {
  /** Counts a request; the seconds to wait, at least 1, when its account is over the limit. */
  charge(accountId: string, perMinute: number): Promise<number | undefined>
}

/** Opens the count of a namespace. */
export function openAccountLimit(redis: Redis, { prefix }: { prefix: string }): AccountLimit {
  const limiters = new Map<number, RateLimiterRedis>()
  const limiterOf = (perMinute: number): RateLimiterRedis => {
    const limit = { points: perMinute, duration: 60 }
    const opened =
      limiters.get(perMinute) ??
      new RateLimiterRedis({
        ...limit,
        storeClient: redis,
        keyPrefix: `${prefix}account-expensive`,
        rejectIfRedisNotReady: true,
        inMemoryBlockOnConsumed: perMinute,
        insuranceLimiter: new RateLimiterMemory(limit),
      })
    limiters.set(perMinute, opened)
    return opened
  }
  return {
    async charge(accountId, perMinute) {
      try {
        await limiterOf(perMinute).consume(accountId)
        return undefined
      } catch (refused) {
        if (!(refused instanceof RateLimiterRes)) throw refused
        return Math.max(Math.ceil(refused.msBeforeNext / 1000), 1)
      }
    },
  }
}
