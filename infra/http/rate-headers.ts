import type { Metered, RequestLimits } from '#infra/redis/request-meter.ts'

/** The rate-limit headers of an answer, name and value in turn. */
export const rateHeaders = (tier: string, limits: RequestLimits, { remaining, resetAt }: Metered): string[] => [
  ...['X-RateLimit-Limit', String(limits.perMonth), 'X-RateLimit-Remaining', String(remaining)],
  ...['X-RateLimit-Reset', String(resetAt), 'X-RateLimit-Tier', tier],
]
