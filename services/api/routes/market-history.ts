/**
 * GET /market/indicators and /market/history/chart: what an item's stored days and candles come to.
 *
 * Rules: DECISIONS.md, "Indicators" and "History chart". Amounts are converted at the rate of their UTC day. Indicators
 * use completed candles, filled forward: an open candle would change them between two requests.
 */
import type { Router } from 'express'
import type { z } from 'zod'
import { JsonText } from '#infra/runtime/json-text.ts'
import {
  historyChartQuery,
  type historyChartReply,
  indicatorsQuery,
  type indicatorsReply,
} from '#schemas/api/market.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import { toUsdText } from '#schemas/values/money.ts'
import { type Candle, readCandles } from '#streams/candles/reader.ts'
import type { RateAt } from '#streams/fx/reader.ts'
import { readChart } from '#streams/history/reader.ts'
import { addSeries } from '../chart-text.ts'
import { orUnavailable } from '../errors.ts'
import type { Allow } from '../guard.ts'
import { CANDLES_NEEDED, indicatorsOf, type SeriesCandle } from '../indicator-math.ts'
import type { ApiParts } from '../parts.ts'
import { readRates } from '../queries/fx-rates.ts'
import { namedItems } from '../queries/listing.ts'
import { chartProviders, chartWindow } from '../queries/windows.ts'
import { send } from '../reply.ts'
import { parse } from '../request.ts'
import { analyticsMeta } from './market.ts'

const DOWN = 'Stored prices are temporarily unavailable.'
const ALL_PROVIDERS = 'All Providers'
const DAY_MS = 86_400_000
/** What a chart of some providers comes to; one of more grows. */
const BODY_BYTES = 64 * 1024

/** What indicators of an interval look back on (DECISIONS.md, "Indicators"). */
const SERIES = {
  '1d': { intervalMs: DAY_MS, days: 365, perYear: 365 },
  '1h': { intervalMs: 3_600_000, days: 30, perYear: 8_760 },
} as const

/** Adds the routes. */
export function addMarketHistoryRoutes(router: Router, allow: Allow, parts: ApiParts): void {
  addIndicatorsRoute(router, allow, parts)
  addChartRoute(router, allow, parts)
}

function addIndicatorsRoute(router: Router, allow: Allow, parts: ApiParts): void {
  const { catalog, clickhouse, fx } = parts
  const schema = indicatorsQuery({ isCurrency: code => fx.isCurrency(code) })

  router.get('/market/indicators', allow('quant'), async (request, response) => {
    const query = parse(schema, request)
    const { interval, currency } = query
    const { ids, item } = namedItems(catalog, query)
    const { intervalMs, days, perYear } = SERIES[interval]
    const now = parts.now()
    const end = Math.floor(now / intervalMs) * intervalMs
    const window = { start: end - days * DAY_MS, end, intervalMs }
    const read = Promise.all([
      readCandles(clickhouse, ids, window, { fill: true, now }),
      readRates(clickhouse, currency, window.start),
    ])
    const [candles, rateAt] = await orUnavailable(read, 'SERVICE_UNAVAILABLE', DOWN)
    const identity = { item_id: item.item_id, market_hash_name: item.market_hash_name, phase: item.phase }
    const last = candles.at(-1)
    const reply: z.infer<typeof indicatorsReply> = {
      meta: {
        ...analyticsMeta('live', end, now, `${days}d`),
        ...{ interval, currency, provider: ALL_PROVIDERS },
      },
      data: {
        ...identity,
        ...{ provider: ALL_PROVIDERS, interval },
        close_price_usd: last ? toUsdText(last.c) : null,
        ...indicatorsOf(
          candles.map(candle => inMajorUnits(candle, rateAt)),
          perYear,
        ),
        coverage: coverageOf(candles),
      },
    }
    send(response, 200, JSON.stringify(reply))
  })
}

/** Figures, not money: an average has no hundredths to be exact in. */
function inMajorUnits({ t, o, h, l, c, v }: Candle, rateAt: RateAt): SeriesCandle {
  const factor = rateAt(t).approximate / 1_000_000
  return { open: o * factor, high: h * factor, low: l * factor, close: c * factor, volume: v }
}

function coverageOf(candles: readonly Candle[]): z.infer<typeof indicatorsReply>['data']['coverage'] {
  const [first, last] = [candles[0], candles.at(-1)]
  const needs = Object.entries(CANDLES_NEEDED)
  const names = (isEnough: boolean) =>
    needs.filter(([, needed]) => candles.length >= needed === isEnough).map(([name]) => name)
  return {
    candle_count: candles.length,
    first_bucket: first ? formatInstant(first.t) : null,
    last_bucket: last ? formatInstant(last.t) : null,
    sufficient_for: names(true),
    insufficient_for: names(false),
  }
}

function addChartRoute(router: Router, allow: Allow, parts: ApiParts): void {
  const { catalog, clickhouse, fx, registry } = parts
  const schema = historyChartQuery({ askKeys: registry.askKeys, isCurrency: code => fx.isCurrency(code) })

  router.get('/market/history/chart', allow('quant'), async (request, response) => {
    const query = parse(schema, request)
    const { ids, item } = namedItems(catalog, { ...query, phase: undefined })
    const window = chartWindow(query, parts.now())
    const read = Promise.all([
      readChart(clickhouse, ids, chartProviders(registry.all, query), window),
      readRates(clickhouse, query.currency, window.start),
    ])
    const [chart, rateAt] = await orUnavailable(read, 'SERVICE_UNAVAILABLE', DOWN)
    const meta: z.infer<typeof historyChartReply>['meta'] = {
      item_id: item.item_id,
      market_hash_name: item.market_hash_name,
      currency: query.currency,
      start: formatInstant(window.start),
      end: formatInstant(window.end),
      providers: [...chart.series.keys()],
    }
    const body = new JsonText(BODY_BYTES)
    body.text(`{"meta":${JSON.stringify(meta)},"series":`)
    addSeries(body, chart, query.currency, rateAt)
    body.text('}')
    send(response, 200, body.take())
  })
}
