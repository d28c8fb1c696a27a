import type { Redis } from '#infra/redis/redis.ts'
import { type Instant, MINUTE_MS } from '#schemas/values/instant.ts'
import { openReadJudge } from '#streams/runner/positions.ts'
import { decodeHealth, healthHeadKey, healthKey, type ProviderHealth, parseHealthHead } from './table.ts'

export type { ProviderHealth } from './table.ts'

/** A build changes the version once. */
const ATTEMPTS = 3

/**
 * Reads the health of all providers by key. One without a judged refresh is absent; a view that is not there rejects, and so does
 * a connection that is being made again, at once.
 */
export function openHealthReader(redis: Redis, prefix: string): () => Promise<ReadonlyMap<string, ProviderHealth>> {
  const headKey = healthHeadKey(prefix)
  let known = { version: 0, judge: openReadJudge() }
  return async () => {
    // The client would delay the request until it is connected again.
    if (redis.status !== 'ready') throw new Error('Redis is not connected')
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      const { version, judge } = known
      const answers = (await redis.multi().get(headKey).hgetall(healthKey(version, prefix)).exec()) ?? []
      for (const [error] of answers) if (error) throw error
      const [text, stored] = answers.map(([, answer]) => answer) as [string | null, Record<string, string>]
      const head = text === null ? undefined : parseHealthHead(text)
      if (head === undefined || head.version === version) {
        // Without a head every provider would seem to be down.
        const lack = judge(head)
        if (lack !== undefined) throw new Error(`provider health may not be read: ${lack}`)
        return new Map(Object.entries(stored).map(([key, one]) => [key, decodeHealth(one)]))
      }
      known = { version: head.version, judge: openReadJudge() }
    }
    throw new Error('provider health was rebuilt at every attempt to read it')
  }
}

const INTERVALS_UNTIL_DOWN = 3
const SHORTEST_UNTIL_DOWN_MS = 15 * MINUTE_MS
const FAILURES_UNTIL_DOWN = 3

/**
 * Whether a provider is down at a time: no refresh has completed within three of its intervals (at least 15 minutes),
 * or the last three failed (DECISIONS.md, "Provider health"); one that was never checked is down.
 */
export function isDown(refreshIntervalMs: number, health: ProviderHealth | undefined, now: Instant): boolean {
  if (!health || health.last_completed_at === null) return true
  if (health.consecutive_failures >= FAILURES_UNTIL_DOWN) return true
  return now - health.last_completed_at > Math.max(INTERVALS_UNTIL_DOWN * refreshIntervalMs, SHORTEST_UNTIL_DOWN_MS)
}
