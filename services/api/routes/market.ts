/**
 * GET /market/arbitrage, /market/indexes, /market/items and /market/items/:item_id: the market as a whole.
 *
 * Rules: DECISIONS.md, "Arbitrage" and "Market items". Answered from the views of streams/market-summary; a view
 * that is missing or too old is a 503, never an empty answer.
 */
import type { Router } from 'express'
import { z } from 'zod'
import { arbitrageQuery, type arbitrageReply } from '#schemas/api/arbitrage.ts'
import { indexesQuery, type indexesReply, type marketItemReply } from '#schemas/api/market.ts'
import { integer } from '#schemas/api/query-values.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import { readItemPast } from '#streams/history/reader.ts'
import { arbitrageFees, type SummaryView } from '#streams/market-summary/reader.ts'
import { openArbitragePages } from '../arbitrage-pages.ts'
import { openItemText } from '../arbitrage-text.ts'
import { chooseCoding } from '../content-coding.ts'
import { ApiError, itemNotFound, orUnavailable } from '../errors.ts'
import type { Allow } from '../guard.ts'
import { preparedBody } from '../market-body.ts'
import type { ApiParts } from '../parts.ts'
import { currentArbitrage, excludedQuotes } from '../queries/arbitrage.ts'
import { countingEntries, itemProviders } from '../queries/item-analytics.ts'
import { send, sendPieces } from '../reply.ts'
import { parse, parseParams, rawQuery } from '../request.ts'

const DOWN = 'The market summary is temporarily unavailable.'

type ArbitrageReply = z.infer<typeof arbitrageReply>

/** Adds the routes. */
export function addMarketRoutes(router: Router, allow: Allow, parts: ApiParts): void {
  addArbitrageRoute(router, allow, parts)
  addIndexesRoute(router, allow, parts)
  addItemsRoute(router, allow, parts)
  addItemRoute(router, allow, parts)
}

/** The `meta` of an answer whose figures are of one moment. */
export const analyticsMeta = (source: 'cache' | 'live' | 'mixed', asOf: number, now: number, timeframe: string) => ({
  generated_at: formatInstant(asOf),
  data_source: source,
  freshness_sec: Math.max(0, Math.floor((now - asOf) / 1000)),
  window: { timeframe },
})

function addArbitrageRoute(router: Router, allow: Allow, parts: ApiParts): void {
  const { market, registry, catalog } = parts
  const schema = arbitrageQuery(registry)
  const fees = new Map(registry.all.map(provider => [provider.key, arbitrageFees(provider.fees)]))
  const pageOf = openArbitragePages({ fees, itemText: openItemText(catalog) })
  router.get('/market/arbitrage', allow('quant'), async (request, response) => {
    if ('cursor' in rawQuery(request)) {
      throw new ApiError('CURSOR_NOT_SUPPORTED', 'Arbitrage is paged by offset; leave cursor out.')
    }
    const query = parse(schema, request)
    const now = parts.now()
    const view = await currentArbitrage(market, now)
    const { items, hasNext } = pageOf(view, query, now)
    const { limit, offset } = query
    const meta: ArbitrageReply['meta'] = {
      ...analyticsMeta('cache', view.head.as_of, now, '60m'),
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
    sendPieces(response, 200, [before, items, after])
  })
}

const namedItem = ({
  item_id,
  market_hash_name,
  phase,
}: {
  item_id: number
  market_hash_name: string
  phase: string | null
}) => ({
  item_id,
  market_hash_name,
  phase,
})

function currentSummary({ market }: ApiParts): SummaryView {
  const view = market.summary()
  if (!view) throw new ApiError('SERVICE_UNAVAILABLE', DOWN)
  return view
}

function addIndexesRoute(router: Router, allow: Allow, parts: ApiParts): void {
  router.get('/market/indexes', allow('quant'), (request, response) => {
    const { group_by } = parse(indexesQuery, request)
    const { head } = currentSummary(parts)
    const reply: z.infer<typeof indexesReply> = {
      meta: { ...analyticsMeta('cache', head.as_of, parts.now(), '24h'), group_by },
      data: head.indexes[group_by],
    }
    send(response, 200, JSON.stringify(reply))
  })
}

function addItemsRoute(router: Router, allow: Allow, parts: ApiParts): void {
  router.get('/market/items', allow('pro', 'quant'), (request, response) => {
    const { head, text, deflated } = currentSummary(parts)
    const coding = chooseCoding(String(request.headers['accept-encoding'] ?? '')) ?? 'identity'
    const meta = analyticsMeta('cache', head.as_of, parts.now(), '24h')
    const rows = { text, deflated, crc: head.body.crc }
    const body = preparedBody(`{"meta":${JSON.stringify(meta)},"data":{"items":[`, rows, ']}}', coding)
    const encoded = coding === 'gzip' ? ['Content-Encoding', 'gzip'] : []
    sendPieces(response, 200, body, ['Vary', 'Accept-Encoding', ...encoded])
  })
}

function addItemRoute(router: Router, allow: Allow, parts: ApiParts): void {
  const { catalog, clickhouse, live, registry } = parts
  const schema = z.object({ item_id: integer({ min: 1 }) })

  router.get('/market/items/:item_id', allow('pro', 'quant'), async (request, response) => {
    const { item_id: itemId } = parseParams(schema, request)
    const item = catalog.byId(itemId)
    if (!item) throw itemNotFound()
    const view = currentSummary(parts)
    const row = view.rowOf(itemId)
    if (row === undefined) throw new ApiError('SERVICE_UNAVAILABLE', 'The item is not in the market summary yet.')
    const now = parts.now()
    const [asks, bids, past, health] = await Promise.all([
      live.ofItems('ask', [itemId]),
      live.ofItems('bid', [itemId]),
      orUnavailable(readItemPast(clickhouse, itemId, now), 'SERVICE_UNAVAILABLE', DOWN),
      orUnavailable(parts.health.read(registry.askKeys), 'SERVICE_UNAVAILABLE', DOWN),
    ])
    const counting = (entries: typeof asks) => countingEntries(entries, registry.byKey, health, now)
    const providers = itemProviders(counting(asks), counting(bids), past, now)
    const reply: z.infer<typeof marketItemReply> = {
      meta: analyticsMeta('mixed', view.head.as_of, now, '24h'),
      data: {
        ...namedItem(item),
        summary: JSON.parse(row).summary,
        providers,
        coverage: {
          provider_count: providers.length,
          providers_with_volume: providers.filter(one => one.volume_24h > 0).length,
          providers_with_bid_side: providers.filter(one => one.bid_usd !== null).length,
        },
      },
    }
    send(response, 200, JSON.stringify(reply))
  })
}
