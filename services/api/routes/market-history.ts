/**
 * GET /market/indicators and /market/history/chart: what an item's stored days and candles come to.
 *
 * Rules: DECISIONS.md, "Indicators" and "History chart". Amounts are converted at the rate of their UTC day. Indicators
 * use completed candles, filled forward: an open candle would change them between two requests.
 */
import type { z } from 'zod'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { stream } from '#infra/http/reply.ts'
import { nextTurn } from '#infra/runtime/turns.ts'
import { historyChartQuery, historyChartReply } from '#schemas/api/history.ts'
import { indicatorsQuery, indicatorsReply } from '#schemas/api/indicators.ts'
import { json, QUANT } from '#schemas/api/operation.ts'
import { DAY_MS, formatInstant, HOUR_MS } from '#schemas/values/instant.ts'
import { recordAmount, toUsdText } from '#schemas/values/money.ts'
import { type Candle, readCandles } from '#streams/candles/reader.ts'
import type { RateAt } from '#streams/fx/reader.ts'
import { type Chart, readChart } from '#streams/history/reader.ts'
import { type ApiContext, readRates } from '../context.ts'
import { CANDLES_NEEDED, indicatorsOf, type SeriesCandle } from '../indicator-math.ts'
import { itemNames, namedItems } from '../queries/listing.ts'
import { chartProviders, chartWindow } from '../queries/windows.ts'
import { analyticsMeta } from './market.ts'

type ChartReply = z.infer<typeof historyChartReply>

const GROUP = 'Market analytics'
const ALL_PROVIDERS = 'All Providers' as const

/** How far indicators of an interval look back (DECISIONS.md, "Indicators"). */
const SERIES = {
  '1d': { intervalMs: DAY_MS, days: 365, perYear: 365 },
  '1h': { intervalMs: HOUR_MS, days: 30, perYear: 8_760 },
} as const

export const marketHistoryRoutes = (api: ApiContext): Route[] => [readIndicators(api), readHistoryChart(api)]

const readIndicators = ({ catalog, clickhouse, fx, now }: ApiContext): Route =>
  defineRoute({
    id: 'getIndicators',
    method: 'get',
    path: '/market/indicators',
    group: GROUP,
    tiers: QUANT,
    summary: 'Technical indicators of the best ask over all providers',
    description:
      'From completed candles, gaps filled forward: 365 days of `1d`, 30 days of `1h`. What the history is too short for is null.',
    query: indicatorsQuery({ isCurrency: fx.isCurrency }),
    reply: json('IndicatorsReply', indicatorsReply, 'Figures in major units of the currency.'),
    errors: ['ITEM_NOT_FOUND'],
    async handle({ query }) {
      const { interval, currency } = query
      const { ids, item } = namedItems(catalog, query)
      const { intervalMs, days, perYear } = SERIES[interval]
      const at = now()
      const end = Math.floor(at / intervalMs) * intervalMs
      const window = { start: end - days * DAY_MS, end, intervalMs }
      const [candles, rateAt] = await Promise.all([
        readCandles(clickhouse, ids, window, { fill: true, now: at }),
        readRates(clickhouse, currency, window.start),
      ])
      const last = candles.at(-1)
      return {
        meta: {
          ...analyticsMeta('live', end, at, `${days}d`),
          interval,
          currency,
          provider: ALL_PROVIDERS,
        },
        data: {
          ...itemNames(item),
          provider: ALL_PROVIDERS,
          interval,
          close_price_usd: last ? toUsdText(last.c) : null,
          ...indicatorsOf(
            candles.map(candle => inMajorUnits(candle, rateAt)),
            perYear,
          ),
          coverage: coverageOf(candles),
        },
      }
    },
  })

/** Figures, not money: an average has no hundredths to be exact in. */
function inMajorUnits({ t, o, h, l, c, v }: Candle, rateAt: RateAt): SeriesCandle {
  const factor = rateAt(t).approximate / 1_000_000
  return { open: o * factor, high: h * factor, low: l * factor, close: c * factor, volume: v }
}

function coverageOf(candles: readonly Candle[]): z.infer<typeof indicatorsReply>['data']['coverage'] {
  const [first, last] = [candles[0], candles.at(-1)]
  const api = Object.entries(CANDLES_NEEDED)
  const names = (isEnough: boolean) =>
    api.filter(([, needed]) => candles.length >= needed === isEnough).map(([name]) => name)
  return {
    candle_count: candles.length,
    first_bucket: first ? formatInstant(first.t) : null,
    last_bucket: last ? formatInstant(last.t) : null,
    sufficient_for: names(true),
    insufficient_for: names(false),
  }
}

const readHistoryChart = ({ catalog, clickhouse, fx, registry, now }: ApiContext): Route =>
  defineRoute({
    id: 'getHistoryChart',
    method: 'get',
    path: '/market/history/chart',
    group: GROUP,
    tiers: QUANT,
    summary: 'Daily closes of an item by provider, for years',
    description:
      'One of `item_id` and `market_hash_name` is required. One point per provider and UTC day; the last 365 days by default. `lookback` in days overrides `start`.',
    query: historyChartQuery({ askKeys: registry.askKeys, isCurrency: fx.isCurrency }),
    reply: json('HistoryChartReply', historyChartReply, 'A series per provider with at least one point.'),
    errors: ['ITEM_NOT_FOUND'],
    async handle({ query, response }) {
      const { ids, item } = namedItems(catalog, { ...query, phase: undefined })
      const window = chartWindow(query, now())
      const [chart, rateAt] = await Promise.all([
        readChart(clickhouse, ids, chartProviders(registry.all, query), window),
        readRates(clickhouse, query.currency, window.start),
      ])
      const meta: ChartReply['meta'] = {
        item_id: item.item_id,
        market_hash_name: item.market_hash_name,
        currency: query.currency,
        start: formatInstant(window.start),
        end: formatInstant(window.end),
        providers: [...chart.series.keys()],
      }
      return stream(response, textOf(meta, chart, rateAt))
    },
  })

const DAY_S = 86_400

/** Each point's price is at the rate of its own day; a year of 41 providers has 15,000 points. */
async function* textOf(meta: ChartReply['meta'], { prices, series }: Chart, rateAt: RateAt): AsyncGenerator<string> {
  let before = `{"meta":${JSON.stringify(meta)},"series":[`
  for (const [provider, { day, priceRow, quantity }] of series) {
    const data = Array.from(day, (shown, i) => {
      const row = priceRow[i] as number
      const record = {
        price: prices.price[row] as number,
        currency: prices.currency[row] as string,
        price_micro_usd: prices.price_micro_usd[row] as number,
      }
      const units = quantity[i] as number
      const price = recordAmount(record, meta.currency, () => rateAt(shown * DAY_S * 1000))
      return { t: shown * DAY_S, price, qty: units < 0 ? null : units }
    })
    yield before + JSON.stringify({ provider, data } satisfies ChartReply['series'][number])
    before = ','
    await nextTurn()
  }
  yield `${before === ',' ? '' : before}]}`
}
