import type { Provider } from '#infra/config/providers.ts'
import type { ProviderRecord } from '#schemas/api/providers.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import { isDown, type ProviderHealth } from '#streams/provider-health/reader.ts'

/** What a record is made of beside the provider itself. */
export interface RecordScope {
  now: number
  catalogItems: number
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
