/** Opens the connectors of a market's feeds. One whose provider is unknown, or which is not configured, fails the start by name. */
import type { Market } from '#infra/config/market.ts'
import type { ProviderRegistry } from '#infra/config/providers.ts'
import type { Environment } from '#infra/runtime/secret.ts'
import type { RateTable } from '../fx/rate-table.ts'
import type { OpenSource } from '../source.ts'
import { openHttpJson } from './http-json/client.ts'
import { openRecorded } from './recorded/client.ts'
import { loadSimulatedBase, openSimulated } from './simulated/client.ts'

export async function openSources(
  market: Market,
  providers: ProviderRegistry,
  rates: RateTable,
  env: Environment,
): Promise<OpenSource[]> {
  const isSimulated = market.feeds.some(feed => feed.connector === 'simulated')
  const base = isSimulated && market.base ? await loadSimulatedBase(market.base, rates, market) : undefined
  return market.feeds.map(entry => {
    const provider = providers.byKey.get(entry.provider)
    if (!provider)
      throw new Error(`market ${market.name} names ${entry.provider}, which the providers file does not know`)
    const { key, default_currency: currency } = provider
    const source = { provider: key, side: entry.side, intervalMs: entry.interval_ms, currency }
    if (entry.connector === 'recorded') return { ...source, connector: openRecorded(source, entry.options) }
    if (entry.connector === 'http-json') return { ...source, connector: openHttpJson(source, entry.options, env) }
    if (!base) throw new Error(`the simulated feed of ${key} has no base refresh`)
    return { ...source, connector: openSimulated(source, entry.options, base, market.seed) }
  })
}
