import type { Redis } from '#infra/redis/redis.ts'
import { type Instant, MINUTE_MS } from '#schemas/values/instant.ts'
import { openReadJudge } from '#streams/runner/positions.ts'
import { decodeHealth, healthHeadKey, healthKey, type ProviderHealth, parseHealthHead } from './table.ts'

export type { ProviderHealth } from './table.ts'

/** Reads provider health. A provider without a judged refresh is absent; a view that is not there rejects. */
export interface ProviderHealthReader {
  /** Health of some providers by key; rejects at once while the connection is being made again. */
  read(providers: readonly string[]): Promise<ReadonlyMap<string, ProviderHealth>>
  /** Health of all providers by key; waits while the connection is being made again. */
  readAll(): Promise<ReadonlyMap<string, ProviderHealth>>
}

export function openHealthReader(redis: Redis, prefix: string): ProviderHealthReader {
  const headKey = healthHeadKey(prefix)
  let known = { version: 0, judge: openReadJudge() }
  /** The answer of a transaction beside the head's; without a head every provider would seem to be down. */
  async function stored<T>(
    read: (transaction: ReturnType<Redis['multi']>, key: string) => typeof transaction,
  ): Promise<T> {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      const { version, judge } = known
      const answers = (await read(redis.multi().get(headKey), healthKey(version, prefix)).exec()) ?? []
      for (const [error] of answers) if (error) throw error
      const [text, found] = answers.map(([, answer]) => answer) as [string | null, T]
      const head = text === null ? undefined : parseHealthHead(text)
      if (head === undefined || head.version === version) {
        const lack = judge(head)
        if (lack !== undefined) throw new Error(`provider health may not be read: ${lack}`)
        return found
      }
      if (head.version !== known.version) known = { version: head.version, judge: openReadJudge() }
    }
    throw new Error('provider health was rebuilt at every attempt to read it')
  }
  return {
    async read(providers) {
      // The client would delay the request until it is connected again.
      if (redis.status !== 'ready') throw new Error('Redis is not connected')
      const texts = await stored<(string | null)[]>((transaction, key) => transaction.hmget(key, ...providers))
      return new Map(
        providers.flatMap((key, i): [string, ProviderHealth][] => {
          const text = texts[i]
          return text ? [[key, decodeHealth(text)]] : []
        }),
      )
    },
    async readAll() {
      const texts = await stored<Record<string, string>>((transaction, key) => transaction.hgetall(key))
      return new Map(Object.entries(texts).map(([key, text]) => [key, decodeHealth(text)]))
    },
  }
}

/** A build changes the version once. */
const ATTEMPTS = 3
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
