/**
 * Counts requests without a valid key by the address that they come from.
 *
 * Writes one counter per address and minute through rate-limiter-flexible, so that all processes count
 * together. An address that is over its limit is refused from memory until its minute ends, and while Redis is lost
 * each process counts for itself: such requests are never uncounted and cost a lost server nothing.
 */
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import type { Redis } from './redis.ts'

/** Counts requests by address. */
export interface AddressLimit {
  /** Counts a request; the seconds to wait, at least 1, when its address is over the limit. */
  charge(address: string | undefined): Promise<number | undefined>
}

/** Opens the count of a namespace. */
export function openAddressLimit(redis: Redis, options: { prefix: string; perMinute: number }): AddressLimit {
  const limit = { points: options.perMinute, duration: 60 }
  const limiter = new RateLimiterRedis({
    ...limit,
    storeClient: redis,
    keyPrefix: `${options.prefix}address-requests`,
    rejectIfRedisNotReady: true,
    inMemoryBlockOnConsumed: options.perMinute,
    insuranceLimiter: new RateLimiterMemory(limit),
  })
  return {
    async charge(address) {
      try {
        await limiter.consume(subjectOf(address ?? 'unknown'))
        return undefined
      } catch (refused) {
        if (!(refused instanceof RateLimiterRes)) throw refused
        return Math.max(Math.ceil(refused.msBeforeNext / 1000), 1)
      }
    },
  }
}

/** Who has one IPv6 address has the 2^64 of its network, so these count together. */
function subjectOf(address: string): string {
  const plain = address.replace(/^::ffff:(?=\d+\.)/, '')
  if (!plain.includes(':')) return plain
  const [head = '', tail = ''] = plain.split('%', 1).join('').split('::')
  const groups = head.split(':').filter(Boolean)
  const after = tail.split(':').filter(Boolean)
  const zeros = plain.includes('::') ? Array.from({ length: 8 - groups.length - after.length }, () => '0') : []
  return [...groups, ...zeros, ...after].slice(0, 4).join(':')
}
