/**
 * The request limits of the feeds: a connect counts in the minute of its key and not against its monthly quota;
 * without a valid key it counts on its address.
 *
 * Counts through infra/redis, in the same windows as the API's requests. Every answer to a valid key carries
 * X-RateLimit-*, and when requests cannot be counted none is accepted.
 */
import { requestLimits, type Tier, type TierLimits } from '#infra/config/tiers.ts'
import type { Credential } from '#infra/http/credential.ts'
import { rateHeaders } from '#infra/http/rate-headers.ts'
import type { AddressLimit } from '#infra/redis/address-limit.ts'
import type { RequestMeter } from '#infra/redis/request-meter.ts'

/** The outcome of a counted connect. */
interface CountedConnect {
  /** X-RateLimit-*, names and values alternating. */
  headers: readonly string[]
  /** Seconds to wait when the key is over its limit. */
  waitSeconds: number | undefined
}

/** Counts connects. */
export interface FeedLimits {
  /** Counts a connect of a key; rejects when that is not possible. */
  count(credential: Credential): Promise<CountedConnect>
  /** The headers of a key whose connect counts nothing; none when they cannot be known. */
  show(credential: Credential): Promise<readonly string[]>
  /** Counts a request without a valid key; the seconds to wait when its address is over the limit. */
  countAddress(address: string | undefined): Promise<number | undefined>
}

/** Opens the limits. */
export function openFeedLimits(parts: {
  meter: RequestMeter
  addresses: AddressLimit
  tiers: Record<Tier, TierLimits>
}): FeedLimits {
  const limitsOf = (credential: Credential) => requestLimits(parts.tiers[credential.tier], credential)
  return {
    async count(credential) {
      const limits = limitsOf(credential)
      const metered = await parts.meter.take(credential.keyId, limits, { countsInMonth: false })
      const headers = rateHeaders(credential.tier, limits, metered)
      return { headers, waitSeconds: metered.refusedBy ? metered.retryAfterSeconds : undefined }
    },
    async show(credential) {
      const limits = limitsOf(credential)
      const metered = await parts.meter.read(credential.keyId, limits).catch(() => undefined)
      return metered ? rateHeaders(credential.tier, limits, metered) : []
    },
    countAddress: address => parts.addresses.charge(address),
  }
}
