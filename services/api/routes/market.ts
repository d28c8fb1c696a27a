/**
 * GET /market/arbitrage, /market/indexes, /market/items and /market/items/:item_id: the market as a whole.
 *
 * Rules: DECISIONS.md, "Arbitrage" and "Market items". Answered from the views of streams/market-summary; a view
 * that is missing or too old is a 503, never an empty answer.
 */
import type { z } from 'zod'
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import type { ProviderRegistry } from '#infra/config/providers.ts'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { HttpError, orUnavailable } from '#infra/http/http-error.ts'
import { bytes } from '#infra/http/reply.ts'
import { rawQuery } from '#infra/http/request.ts'
import type { ViewStore } from '#infra/redis/redis.ts'
import { noteShared } from '#infra/runtime/connection-limits.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import { arbitrageQuery, arbitrageReply } from '#schemas/api/arbitrage.ts'
import { indexesQuery, indexesReply, marketItemParams, marketItemReply, marketItemsReply } from '#schemas/api/market.ts'
import { json, PRO, QUANT } from '#schemas/api/operation.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import { readItemPast } from '#streams/history/reader.ts'
import { arbitrageFees, type MarketViews, openMarketViews, type SummaryView } from '#streams/market-summary/reader.ts'
import type { ProviderHealthReader } from '#streams/provider-health/reader.ts'
import { openArbitragePages, openPairItemText } from '../arbitrage-pages.ts'
import { preparedBody } from '../deflated-bodies.ts'
import { currentArbitrage, excludedQuotes } from '../queries/arbitrage.ts'
import { countingEntries, itemProviders } from '../queries/item-analytics.ts'
import { itemNotFound } from '../queries/listing.ts'
import type { LiveView } from '../queries/live-view.ts'

/** What the pairs of arbitrage need. */
interface ArbitrageNeeds {
  market: Pick<MarketViews, 'arbitrage'>
  registry: ProviderRegistry
  catalog: CatalogReader
  /** Milliseconds since the epoch. */
  now: () => number
}

/** What summaries of the market need. */
interface SummaryNeeds {
  market: Pick<MarketViews, 'summary'>
  now: () => number
}

/** What the record of an item needs. */
interface MarketItemNeeds extends SummaryNeeds {
  catalog: CatalogReader
  registry: ProviderRegistry
  clickhouse: ClickhouseReader
  live: LiveView
  health: ProviderHealthReader
}

/** What all routes of the market as a whole need. */
export type MarketNeeds = Omit<ArbitrageNeeds & MarketItemNeeds, 'market'> & { viewStore: ViewStore }

type ArbitrageReply = z.infer<typeof arbitrageReply>

const GROUP = 'Market analytics'
const DOWN = 'The market summary is temporarily unavailable.'
const NO_INDEX = 'No item has all that an index counts yet: an ask, a bid and a supply.'

/** The routes. */
export function marketRoutes({ viewStore, ...rest }: MarketNeeds): Route[] {
  const needs = { ...rest, market: openMarketViews(viewStore) }
  return [listArbitrage(needs), listIndexes(needs), listMarketItems(needs), readMarketItem(needs)]
}

/** The `meta` of an answer whose figures are of one moment. */
export const analyticsMeta = (source: 'cache' | 'live' | 'mixed', asOf: number, now: number, timeframe: string) => ({
  generated_at: formatInstant(asOf),
  data_source: source,
  freshness_sec: Math.max(0, Math.floor((now - asOf) / 1000)),
  window: { timeframe },
})

function listArbitrage({ market, registry, catalog, now }: ArbitrageNeeds): Route {
  const fees = new Map(registry.all.map(provider => [provider.key, arbitrageFees(provider.fees)]))
  const pageOf = openArbitragePages({ fees, itemText: openPairItemText(catalog) })
  return defineRoute({
    id: 'listArbitrage',
    method: 'get',
    path: '/market/arbitrage',
    group: GROUP,
    tiers: QUANT,
    summary: 'Pairs of an ask and a bid that leave a profit after fees, best first',
    description:
      'From a snapshot that is at most 30 s old; its order stays while `generated_at` does. Quotes of providers that are down or quarantined, or older than 60 minutes, take no part. A snapshot holds the 2,000,000 best pairs. Paged by offset: a `cursor` is refused.',
    query: arbitrageQuery(registry),
    reply: json('ArbitrageReply', arbitrageReply, 'A page of pairs; `total` is not counted.'),
    errors: ['CURSOR_NOT_SUPPORTED'],
    admit({ request }) {
      if (!('cursor' in rawQuery(request))) return
      throw new HttpError('CURSOR_NOT_SUPPORTED', 'Arbitrage is paged by offset; leave cursor out.')
    },
    async handle({ query, response }) {
      const at = now()
      const view = await currentArbitrage(market, at)
      const { items, hasNext } = pageOf(view, query, at)
      const { limit, offset } = query
      const meta: ArbitrageReply['meta'] = {
        ...analyticsMeta('cache', view.asOf, at, '60m'),
        excluded: excludedQuotes(view, query, registry),
      }
      const pagination: ArbitrageReply['pagination'] = {
        limit,
        offset,
        total: -1,
        has_next: hasNext,
        has_prev: offset > 0,
      }
      const before = Buffer.from(`{"meta":${JSON.stringify(meta)},"data":{"items":[`)
      const after = Buffer.from(`]},"pagination":${JSON.stringify(pagination)}}`)
      return bytes(response, [before, items, after])
    },
  })
}

async function currentSummary({ summary }: Pick<MarketViews, 'summary'>): Promise<SummaryView> {
  const view = await orUnavailable(summary.read(), 'SERVICE_UNAVAILABLE', DOWN)
  if (!view) throw new HttpError('SERVICE_UNAVAILABLE', DOWN)
  return view
}

const listIndexes = ({ market, now }: SummaryNeeds): Route =>
  defineRoute({
    id: 'listMarketIndexes',
    method: 'get',
    path: '/market/indexes',
    group: GROUP,
    tiers: QUANT,
    summary: 'Market capitalisation by category',
    description:
      'Best ask times estimated supply. An item without ask, bid or supply, or with a spread above 50 percent, is excluded and counted.',
    query: indexesQuery,
    reply: json('IndexesReply', indexesReply, 'Groups, largest first.'),
    errors: [],
    async handle({ query: { group_by } }) {
      const { indexes, asOf } = await currentSummary(market)
      const index = indexes[group_by]
      if (index.groups.every(group => group.included_count === 0)) throw new HttpError('SERVICE_UNAVAILABLE', NO_INDEX)
      return { meta: { ...analyticsMeta('cache', asOf, now(), '24h'), group_by }, data: index }
    },
  })

const listMarketItems = ({ market, now }: SummaryNeeds): Route =>
  defineRoute({
    id: 'listMarketItems',
    method: 'get',
    path: '/market/items',
    group: GROUP,
    tiers: PRO,
    summary: 'Summary of every catalog item, by rank',
    description:
      'Computed every two minutes; `freshness_sec` is the age. Some 40,000 rows: ask for gzip. Rank is by market capitalisation.',
    reply: json('MarketItemsReply', marketItemsReply, 'One row per catalog item.'),
    errors: [],
    async handle({ request, response }) {
      const { asOf, crc, text, deflated } = await currentSummary(market)
      const coding = request.acceptsEncodings('gzip', 'identity') === 'gzip' ? 'gzip' : 'identity'
      const meta = analyticsMeta('cache', asOf, now(), '24h')
      const rows = { text, deflated, crc }
      const body = preparedBody(`{"meta":${JSON.stringify(meta)},"data":{"items":[`, rows, ']}}', coding)
      const encoded = coding === 'gzip' ? ['Content-Encoding', 'gzip'] : []
      noteShared(response)
      return bytes(response, body, { headers: ['Vary', 'Accept-Encoding', ...encoded] })
    },
  })

const readMarketItem = ({ catalog, clickhouse, live, health, registry, market, now }: MarketItemNeeds): Route =>
  defineRoute({
    id: 'getMarketItem',
    method: 'get',
    path: '/market/items/:item_id',
    group: GROUP,
    tiers: PRO,
    summary: 'Summary of one item and its providers',
    description: 'The summary as of its computation, the providers as they are now.',
    params: marketItemParams,
    reply: json('MarketItemReply', marketItemReply, 'The item; providers without an ask are left out.'),
    errors: ['ITEM_NOT_FOUND', 'PRICES_INDEX_UNAVAILABLE', 'BIDS_INDEX_UNAVAILABLE'],
    async handle({ params: { item_id: itemId } }) {
      const item = catalog.byId(itemId)
      if (!item) throw itemNotFound()
      const view = await currentSummary(market)
      const row = view.rowOf(itemId)
      if (row === undefined) throw new HttpError('SERVICE_UNAVAILABLE', 'The item is not in the market summary yet.')
      const at = now()
      const [asks, bids, past, known] = await Promise.all([
        live.ofItems('ask', [itemId]),
        live.ofItems('bid', [itemId]),
        orUnavailable(readItemPast(clickhouse, itemId, at), 'SERVICE_UNAVAILABLE', DOWN),
        orUnavailable(health.read(registry.askKeys), 'SERVICE_UNAVAILABLE', DOWN),
      ])
      const counting = (entries: typeof asks) => countingEntries(entries, registry.byKey, known, at)
      const providers = itemProviders(counting(asks), counting(bids), past, at)
      return {
        meta: analyticsMeta('mixed', view.asOf, at, '24h'),
        data: {
          item_id: item.item_id,
          market_hash_name: item.market_hash_name,
          phase: item.phase,
          summary: JSON.parse(row).summary,
          providers,
          coverage: {
            provider_count: providers.length,
            providers_with_volume: providers.filter(one => one.volume_24h > 0).length,
            providers_with_bid_side: providers.filter(one => one.bid_usd !== null).length,
          },
        },
      }
    },
  })
