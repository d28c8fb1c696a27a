/**
 * GET /market/arbitrage, /market/indexes, /market/items and /market/items/:item_id: the market as a whole.
 *
 * Rules: DECISIONS.md, "Arbitrage" and "Market items". Answered from the views of streams/market-summary; a view
 * that is missing or too old is a 503, never an empty answer. The rows of an item's providers are ask-driven: a provider without an ask
 * that counts has none, one without a bid has nulls for the figures of a bid. The ask of a past moment is known from the first change
 * after it, which carries the ask before; an ask that has not changed since is the same.
 */
import type { z } from 'zod'
import type { Provider } from '#infra/config/providers.ts'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { HttpError } from '#infra/http/http-error.ts'
import { bytes } from '#infra/http/reply.ts'
import { rawQuery } from '#infra/http/request.ts'
import { noteShared } from '#infra/runtime/connection-limits.ts'
import { arbitrageQuery, arbitrageReply } from '#schemas/api/arbitrage.ts'
import {
  type ItemProvider,
  indexesQuery,
  indexesReply,
  marketItemParams,
  marketItemReply,
  marketItemsReply,
} from '#schemas/api/market.ts'
import { json, PRO, QUANT } from '#schemas/api/operation.ts'
import { DAY_MS, formatInstant, type Instant } from '#schemas/values/instant.ts'
import { type MicroUsd, toUsdText } from '#schemas/values/money.ts'
import { PAST_WINDOWS_MS, type PastWindow, type ProviderPast, readItemPast } from '#streams/history/reader.ts'
import type { LiveEntry } from '#streams/live-view/reader.ts'
import { arbitrageFees, changeSince, marketcapText, percentOf } from '#streams/market-summary/reader.ts'
import { isDown, type ProviderHealth } from '#streams/provider-health/reader.ts'
import type { ApiContext } from '../context.ts'
import { preparedBody } from '../deflated-bodies.ts'
import { arbitragePage, arbitragePairs, excludedQuotes } from '../queries/arbitrage.ts'
import { itemNames, itemNotFound } from '../queries/listing.ts'

const GROUP = 'Market analytics'
const NO_INDEX = 'No item has all that an index counts yet: an ask, a bid and a supply.'

export const marketRoutes = (api: ApiContext): Route[] => [
  listArbitrage(api),
  listIndexes(api),
  listMarketItems(api),
  readMarketItem(api),
]

/** The `meta` of an answer whose figures are of one moment. */
export const analyticsMeta = (source: 'cache' | 'live' | 'mixed', asOf: number, now: number, timeframe: string) => ({
  generated_at: formatInstant(asOf),
  data_source: source,
  freshness_sec: Math.max(0, Math.floor((now - asOf) / 1000)),
  window: { timeframe },
})

/** Of 450 kB at most. */
const PAGES_KEPT = 32

function listArbitrage({ registry, catalog, now, readArbitrage }: ApiContext): Route {
  const fees = new Map(registry.all.map(provider => [provider.key, arbitrageFees(provider.fees)]))
  // Those who poll ask for the same few, and within a second a page seldom changes.
  const pages = new Map<string, { body: Buffer; until: Instant }>()
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
      const view = await readArbitrage()
      const at = now()
      const name = JSON.stringify([view.asOf, query])
      const page = pages.get(name)
      if (page && at <= page.until) return bytes(response, page.body)
      const { rows, hasNext, until } = arbitragePage(view, query, at)
      const { limit, offset } = query
      const body = Buffer.from(
        JSON.stringify({
          meta: {
            ...analyticsMeta('cache', view.asOf, at, '60m'),
            excluded: excludedQuotes(view, query, registry),
          },
          data: { items: arbitragePairs(view, rows, { catalog, fees }) },
          pagination: { limit, offset, total: -1, has_next: hasNext, has_prev: offset > 0 },
        } satisfies z.infer<typeof arbitrageReply>),
      )
      pages.delete(name)
      const [oldest] = pages.keys()
      if (oldest !== undefined && pages.size >= PAGES_KEPT) pages.delete(oldest)
      pages.set(name, { body, until })
      return bytes(response, body)
    },
  })
}

const listIndexes = ({ readSummary, now }: ApiContext): Route =>
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
    async handle({ query: { group_by } }) {
      const { indexes, asOf } = await readSummary()
      const index = indexes[group_by]
      if (index.groups.every(group => group.included_count === 0)) throw new HttpError('SERVICE_UNAVAILABLE', NO_INDEX)
      return { meta: { ...analyticsMeta('cache', asOf, now(), '24h'), group_by }, data: index }
    },
  })

const listMarketItems = ({ readSummary, now }: ApiContext): Route =>
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
    async handle({ request, response }) {
      const summary = await readSummary()
      const coding = request.acceptsEncodings('gzip', 'identity') === 'gzip' ? 'gzip' : 'identity'
      const meta = analyticsMeta('cache', summary.asOf, now(), '24h')
      const body = preparedBody(`{"meta":${JSON.stringify(meta)},"data":{"items":[`, summary, ']}}', coding)
      const encoded = coding === 'gzip' ? ['Content-Encoding', 'gzip'] : []
      noteShared(response)
      return bytes(response, body, { headers: ['Vary', 'Accept-Encoding', ...encoded] })
    },
  })

const readMarketItem = ({ catalog, clickhouse, live, readHealth, registry, readSummary, now }: ApiContext): Route =>
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
      const view = await readSummary()
      const row = view.rowOf(itemId)
      if (row === undefined) throw new HttpError('SERVICE_UNAVAILABLE', 'The item is not in the market summary yet.')
      const at = now()
      const [asks, bids, past, health] = await Promise.all([
        live.ofItems('ask', [itemId]),
        live.ofItems('bid', [itemId]),
        readItemPast(clickhouse, itemId, at),
        readHealth(),
      ])
      const counting = (items: typeof asks) =>
        countingEntries(
          items.flatMap(({ entries }) => entries),
          registry.byKey,
          health,
          at,
        )
      const providers = itemProviders(counting(asks), counting(bids), past, at)
      return {
        meta: analyticsMeta('mixed', view.asOf, at, '24h'),
        data: {
          ...itemNames(item),
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

/** How old a quote may be (DECISIONS.md, "Market items"). */
const AGE_LIMIT_MS = DAY_MS

/** The entries that count: of providers that are up, and confirmed within a day. */
function countingEntries(
  entries: readonly LiveEntry[],
  providers: ReadonlyMap<string, Provider>,
  health: ReadonlyMap<string, ProviderHealth>,
  now: number,
): LiveEntry[] {
  return entries.filter(({ provider: key, lastUpdatedAt }) => {
    const provider = providers.get(key)
    const isUp = provider && !isDown(provider.refresh_interval_ms, health.get(key), now)
    return isUp && now - lastUpdatedAt <= AGE_LIMIT_MS
  })
}

/** A row per provider with an ask, in the order of the asks. */
function itemProviders(
  asks: readonly LiveEntry[],
  bids: readonly LiveEntry[],
  past: ReadonlyMap<string, ProviderPast>,
  now: number,
): ItemProvider[] {
  const bidOf = new Map(bids.map(({ provider, row }) => [provider, row]))
  return asks.map(({ provider, row }): ItemProvider => {
    const bid = bidOf.get(provider)
    const before = past.get(provider)
    const ask = row.priceMicroUsd
    const spread = bid === undefined ? null : ask - bid.priceMicroUsd
    const then = (window: PastWindow): MicroUsd | null => {
      const [count, pastAsk] = before?.[`found_${window}`] ?? [0, null]
      if (count > 0) return pastAsk
      return row.seenAt <= now - PAST_WINDOWS_MS[window] ? ask : null
    }
    const [day, week, month] = [
      changeSince(ask, then('day')),
      changeSince(ask, then('week')),
      changeSince(ask, then('month')),
    ]
    return {
      provider,
      ask_usd: toUsdText(ask),
      bid_usd: bid === undefined ? null : toUsdText(bid.priceMicroUsd),
      spread_usd: spread === null ? null : toUsdText(spread),
      spread_pct: spread === null ? null : percentOf(spread, ask),
      ask_depth: row.quantity,
      bid_depth: bid?.quantity ?? null,
      bid_anomaly: spread !== null && spread < 0,
      volume_24h: before?.units_day ?? 0,
      volume_7d: before?.units_week ?? 0,
      total_value_24h_usd: marketcapText(BigInt(Math.round(before?.value_day ?? 0))),
      price_rate_24h: day.rate,
      price_diff_24h: day.diff,
      price_rate_7d: week.rate,
      price_diff_7d: week.diff,
      price_rate_30d: month.rate,
      price_diff_30d: month.diff,
    }
  })
}
