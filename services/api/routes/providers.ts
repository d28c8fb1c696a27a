/** Rules: DECISIONS.md, "Provider health" and "Amounts and rates". Rates have the digits of their source. */
import type { Provider } from '#infra/config/providers.ts'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { bytes } from '#infra/http/reply.ts'
import { ALL, json } from '#schemas/api/operation.ts'
import { fxReply, type ProviderRecord, providersQuery, providersReply } from '#schemas/api/providers.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import type { FxTable } from '#streams/fx/reader.ts'
import { isDown, type ProviderHealth } from '#streams/provider-health/reader.ts'
import { type ApiContext, ratesUnavailable } from '../context.ts'

export const providerRoutes = (api: ApiContext): Route[] => [listProviders(api), listRates(api)]

const listProviders = ({ registry, catalog, readHealth, now }: ApiContext): Route =>
  defineRoute({
    id: 'listProviders',
    method: 'get',
    path: '/providers',
    group: 'Catalog',
    tiers: ALL,
    summary: 'Providers with fees, features and health',
    description: 'An object keyed by display name.',
    query: providersQuery(registry.askKeys),
    reply: json('ProvidersReply', providersReply, 'Provider records.'),
    async handle({ query: { provider: only } }) {
      const chosen = registry.all.filter(({ key }) => only === undefined || key === only)
      const rows = await readHealth()
      const scope = { now: now(), catalogItems: catalog.items().length }
      return Object.fromEntries(
        chosen.map(entry => [entry.display_name, providerRecordOf(entry, rows.get(entry.key), scope)]),
      )
    },
  })

const listRates = ({ fx }: ApiContext): Route =>
  defineRoute({
    id: 'listFxRates',
    method: 'get',
    path: '/fx',
    group: 'Catalog',
    tiers: ALL,
    summary: 'Exchange rates to the US dollar',
    description: 'Units of a currency per US dollar, with all digits of their source.',
    reply: json('FxReply', fxReply, 'The rates in force.'),
    handle({ response }) {
      const table = fx.current()
      if (!table) throw ratesUnavailable()
      return bytes(response, fxText(table))
    },
  })

/** A double would cut the digits of some rates, so the answer holds their own text. */
function fxText({ asOf, rates }: FxTable): string {
  const members = [...rates].map(([code, rate]) => `${JSON.stringify(code)}:${numberText(rate.text)}`)
  return `{"timestamp":"${formatInstant(asOf)}","rates":{${members.join(',')}}}`
}

/** JSON has no leading zeros, which a rate's text may have. */
const numberText = (text: string): string => text.replace(/^0+(?=\d)/, '')

export function providerRecordOf(
  provider: Provider,
  health: ProviderHealth | undefined,
  { now, catalogItems }: { now: number; catalogItems: number },
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
      status: statusOf(provider, health, now),
      last_checked_at: health ? formatInstant(health.last_checked_at) : null,
      total_offers: health?.total_offers ?? 0,
      unique_items: uniqueItems,
      market_coverage: catalogItems > 0 ? Math.round((uniqueItems / catalogItems) * 10_000) / 100 : 0,
      total_value: health?.total_value ?? 0,
      total_value_usd: health?.total_value_usd ?? 0,
    },
  }
}

export function statusOf(provider: Provider, health: ProviderHealth | undefined, now: number): 'up' | 'down' {
  return isDown(provider.refresh_interval_ms, health, now) ? 'down' : 'up'
}
