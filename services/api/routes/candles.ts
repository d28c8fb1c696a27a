/** Rules: DECISIONS.md, "Candles" and "Candle prices". Amounts take the rate of the bucket's UTC day. */
import type { z } from 'zod'
import { defineRoute, perTier, type Route } from '#infra/http/define-route.ts'
import { rawQuery } from '#infra/http/request.ts'
import { candlesQuery, candlesReply } from '#schemas/api/candles.ts'
import { ALL, json } from '#schemas/api/operation.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import { convertedAmount } from '#schemas/values/money.ts'
import { type Candle, readCandles } from '#streams/candles/reader.ts'
import type { RateAt } from '#streams/fx/reader.ts'
import { type ApiContext, readRates } from '../context.ts'
import { itemNames, namedItems } from '../queries/listing.ts'
import { demandCandleTier, windowOf } from '../queries/windows.ts'

export const listCandles = ({ catalog, clickhouse, fx, tiers, now }: ApiContext): Route =>
  defineRoute({
    id: 'listCandles',
    method: 'get',
    path: '/prices/candles',
    group: 'Prices',
    tiers: ALL,
    summary: 'OHLCV candles of the best ask over all providers',
    description:
      'One of `item_id` and `market_hash_name` is required. Kept for 7 days (5m), 30 days (1h) and 365 days (1d).',
    query: perTier(tiers, limits =>
      candlesQuery({ isCurrency: fx.isCurrency, lookbackDaysMax: limits.lookback_days_max }),
    ),
    reply: json('CandlesReply', candlesReply, 'Candles, oldest first; sparse without `fill`.'),
    errors: ['FORBIDDEN_TIER', 'ITEM_NOT_FOUND'],
    admit: ({ request, credential }) => demandCandleTier(rawQuery(request), tiers[credential.tier]),
    async handle({ query }) {
      const { ids, item } = namedItems(catalog, query)
      const at = now()
      const window = windowOf(query, at)
      const [candles, rateAt] = await Promise.all([
        readCandles(clickhouse, ids, window, { fill: query.fill, now: at }),
        readRates(clickhouse, query.currency, window.start),
      ])
      return {
        meta: {
          ...itemNames(item),
          provider: 'All Providers' as const,
          currency: query.currency,
          interval: query.interval,
          start: formatInstant(window.start),
          end: formatInstant(window.shownEnd),
        },
        data: candles.map(candle => candleReply(candle, rateAt)),
      }
    },
  })

function candleReply(candle: Candle, rateAt: RateAt): z.infer<typeof candlesReply>['data'][number] {
  const { t, o, h, l, c, v, q, providers } = candle
  const rate = rateAt(t)
  const [open, high, low, close] = [o, h, l, c].map(micro => convertedAmount(micro, rate)) as [
    number,
    number,
    number,
    number,
  ]
  return { t: t / 1000, o: open, h: high, l: low, c: close, v, q, providers }
}
