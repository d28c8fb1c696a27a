/**
 * The records of GET /providers: configuration, and health judged now.
 *
 * Reads the Redis hash of streams/provider-health. Invariant: a provider is down when no refresh has
 * completed within three of its intervals (at least 15 minutes) or the last three failed, and up again
 * with the next good one (DECISIONS.md, "Provider health"); one without any refresh is down.
 */
import type { Provider } from '#infra/config/providers.ts'
import type { Redis } from '#infra/redis/redis.ts'
import type { ProviderRecord } from '#schemas/api/providers.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import { healthKey, healthNextKey, isDown, type ProviderHealth } from '#schemas/views/provider-health.ts'

/** What a record is made of beside the provider itself. */
export interface RecordScope {
  now: number
  catalogItems: number
}

/** Reads the health of providers by key; those without any are left out. Rejects while there is no view of it. */
export async function readHealth(
  redis: Redis,
  prefix: string,
  keys: readonly string[],
): Promise<Map<string, ProviderHealth>> {
  // The client would delay the request until it is connected again.
  if (redis.status !== 'ready') throw new Error('Redis is not connected')
  const answers =
    (await redis
      .multi()
      .get(healthNextKey(prefix))
      .hmget(healthKey(prefix), ...keys)
      .exec()) ?? []
  for (const [error] of answers) if (error) throw error
  const [next, texts] = answers.map(([, answer]) => answer) as [string | null, (string | null)[]]
  if (next === null) throw new Error('there is no view of provider health')
  const found = keys.flatMap((key, i): [string, ProviderHealth][] => {
    const text = texts[i]
    return text ? [[key, JSON.parse(text)]] : []
  })
  return new Map(found)
}

/** Makes a provider's record of its configuration and health. */
export function providerRecordOf(
  provider: Provider,
  health: ProviderHealth | undefined,
  scope: RecordScope,
): ProviderRecord {
  const { key, code, logo, market_type, default_currency, fees, features } = provider
  const uniqueItems = health?.unique_items ?? 0
  return {
    key,
    code,
    logo,
    market_type,
    default_currency,
    fees,
    features,
    health: {
      status: statusOf(provider, health, scope.now),
      last_checked_at: health ? formatInstant(health.last_checked_at) : null,
      total_offers: health?.total_offers ?? 0,
      unique_items: uniqueItems,
      market_coverage: scope.catalogItems > 0 ? Math.round((uniqueItems / scope.catalogItems) * 10_000) / 100 : 0,
      total_value: health?.total_value ?? 0,
      total_value_usd: health?.total_value_usd ?? 0,
    },
  }
}

/** Whether a provider is up at a time. */
export function statusOf(provider: Provider, health: ProviderHealth | undefined, now: number): 'up' | 'down' {
  return isDown(provider.refresh_interval_ms, health, now) ? 'down' : 'up'
}
