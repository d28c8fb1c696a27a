/** A `fetch` that reports what is left of a key, as every answer to a valid one says. */
import type { Tier } from '../values/tiers.ts'
import type { Usage } from './messages.ts'

export function countingFetch(report: (usage: Usage) => void): typeof fetch {
  return async (input, init) => {
    const response = await fetch(input, init)
    const { headers } = response
    const tier = headers.get('x-ratelimit-tier')
    // Bulk snapshots say there what is left of a day's starts.
    if (tier !== null && !response.headers.get('content-type')?.startsWith('application/x-ndjson'))
      report({
        tier: tier as Tier,
        limit: Number(headers.get('x-ratelimit-limit')),
        remaining: Number(headers.get('x-ratelimit-remaining')),
        resetAt: Number(headers.get('x-ratelimit-reset')) * 1_000,
      })
    return response
  }
}
