/**
 * GET /providers and GET /fx: the providers, their health, and the exchange rates in force.
 *
 * Rules: DECISIONS.md, "Provider health" and "Amounts and rates". Rates are written with the digits of their source.
 */
import type { ProviderRegistry } from '#infra/config/providers.ts'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { orUnavailable } from '#infra/http/http-error.ts'
import { bytes } from '#infra/http/reply.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import { ALL, json } from '#schemas/api/operation.ts'
import { fxReply, providersQuery, providersReply } from '#schemas/api/providers.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import type { FxTable } from '#streams/fx/reader.ts'
import type { ProviderHealthReader } from '#streams/provider-health/reader.ts'
import { type FxRates, ratesUnavailable } from '../queries/fx-rates.ts'
import { providerRecordOf } from '../queries/provider-records.ts'

/** What the routes of providers need. */
export interface ProviderNeeds {
  registry: ProviderRegistry
  catalog: CatalogReader
  fx: FxRates
  health: ProviderHealthReader
  /** Milliseconds since the epoch. */
  now: () => number
}

/** Both routes. */
export const providerRoutes = (needs: ProviderNeeds): Route[] => [listProviders(needs), listRates(needs)]

const listProviders = ({ registry, catalog, health, now }: ProviderNeeds): Route =>
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
    errors: [],
    async handle({ query: { provider: only } }) {
      const chosen = registry.all.filter(({ key }) => only === undefined || key === only)
      const read = health.read(chosen.map(({ key }) => key))
      const rows = await orUnavailable(read, 'SERVICE_UNAVAILABLE', 'Provider health is temporarily unavailable.')
      const scope = { now: now(), catalogItems: catalog.items().length }
      return Object.fromEntries(
        chosen.map(entry => [entry.display_name, providerRecordOf(entry, rows.get(entry.key), scope)]),
      )
    },
  })

const listRates = ({ fx }: ProviderNeeds): Route =>
  defineRoute({
    id: 'listFxRates',
    method: 'get',
    path: '/fx',
    group: 'Catalog',
    tiers: ALL,
    summary: 'Exchange rates to the US dollar',
    description: 'Units of a currency per US dollar, with all digits of their source.',
    reply: json('FxReply', fxReply, 'The rates in force.'),
    errors: [],
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
