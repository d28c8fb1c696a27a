/**
 * Counts requests without a valid key by the address that they come from.
 *
 * Writes one counter per address, budget and minute through rate-limiter-flexible, so that all processes count together. Budgets
 * do not touch each other: who follows links or guesses keys leaves sign-in open to others of the same address. An address
 * that is over its limit is refused from memory until its minute ends, and while Redis is lost each process counts for
 * itself: such requests are never uncounted and cost a lost server nothing.
 */
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import { networkOf } from '#infra/runtime/trusted-proxies.ts'
import type { Redis } from './redis.ts'

const BUDGETS = ['requests', 'credentials', 'sign-in', 'redirects', 'documents'] as const

/** What a request without a valid key counts in; `credentials` are those that were refused. */
export type AddressBudget = (typeof BUDGETS)[number]

/** Counts requests by address. */
export interface AddressLimit {
  /** Of each budget. */
  perMinute: number
  /** Counts a request; the seconds to wait, at least 1, when its address is over the limit. */
  charge(address: string | undefined, budget: AddressBudget): Promise<number | undefined>
  /** Takes a request back that was not to be counted after all; never rejects. */
  giveBack(address: string | undefined, budget: AddressBudget): Promise<void>
}

const subjectOf = (address: string | undefined): string => networkOf(address ?? 'unknown')

/** Opens the count of a namespace; each budget has `perMinute`. */
export function openAddressLimit(redis: Redis, options: { prefix: string; perMinute: number }): AddressLimit {
  const { prefix, perMinute } = options
  const limit = { points: perMinute, duration: 60 }
  const openLimiter = (budget: AddressBudget): RateLimiterRedis =>
    new RateLimiterRedis({
      ...limit,
      storeClient: redis,
      keyPrefix: `${prefix}address-${budget}`,
      rejectIfRedisNotReady: true,
      inMemoryBlockOnConsumed: perMinute,
      insuranceLimiter: new RateLimiterMemory(limit),
    })
  const limiters = new Map(BUDGETS.map(budget => [budget, openLimiter(budget)]))
  return {
    perMinute,
    async charge(address, budget) {
      try {
        await limiters.get(budget)?.consume(subjectOf(address))
        return undefined
      } catch (refused) {
        if (!(refused instanceof RateLimiterRes)) throw refused
        return Math.max(Math.ceil(refused.msBeforeNext / 1000), 1)
      }
    },
    async giveBack(address, budget) {
      await limiters
        .get(budget)
        ?.reward(subjectOf(address))
        .catch(() => undefined)
    },
  }
}
