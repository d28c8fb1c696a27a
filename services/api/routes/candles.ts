/**
 * GET /prices/candles: candles of the best ask over all providers.
 *
 * Rules: DECISIONS.md, "Candles" and "Candle prices". Amounts are converted at the rate of the bucket's
 * UTC day.
 */
import type { Router } from 'express'
import type { z } from 'zod'
import { candlesQuery, type candlesReply } from '#schemas/api/candles.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import { type Candle, readCandles } from '#streams/candles/reader.ts'
import type { RateAt } from '#streams/fx/reader.ts'
import { convertedAmount } from '../amounts.ts'
import { orUnavailable } from '../errors.ts'
import { type Allow, credentialOf } from '../guard.ts'
import { type ApiParts, perTier } from '../parts.ts'
import { readRates } from '../queries/fx-rates.ts'
import { namedItems } from '../queries/listing.ts'
import { demandCandleTier, windowOf } from '../queries/windows.ts'
import { send } from '../reply.ts'
import { parse, rawQuery } from '../request.ts'

/** Adds the route. */
export function addCandlesRoute(router: Router, allow: Allow, parts: ApiParts): void {
  const { catalog, clickhouse, fx, tiers } = parts
  const schema = perTier(parts, limits =>
    candlesQuery({ isCurrency: code => fx.isCurrency(code), lookbackDaysMax: limits.lookback_days_max }),
  )

  router.get('/prices/candles', allow('free', 'starter', 'pro', 'quant'), async (request, response) => {
    const { tier } = credentialOf(response)
    demandCandleTier(rawQuery(request), tiers[tier])
    const query = parse(schema[tier], request)
    const { ids, item } = namedItems(catalog, query)
    const now = parts.now()
    const window = windowOf(query, now)
    const read = Promise.all([
      readCandles(clickhouse, ids, window, { fill: query.fill, now }),
      readRates(clickhouse, query.currency, window.start),
    ])
    const [candles, rateAt] = await orUnavailable(read, 'SERVICE_UNAVAILABLE', 'Candles are temporarily unavailable.')
    const reply: z.infer<typeof candlesReply> = {
      meta: {
        item_id: item.item_id,
        market_hash_name: item.market_hash_name,
        phase: item.phase,
        provider: 'All Providers',
        currency: query.currency,
        interval: query.interval,
        start: formatInstant(window.start),
        end: formatInstant(window.shownEnd),
      },
      data: candles.map(candle => candleReply(candle, rateAt)),
    }
    send(response, 200, JSON.stringify(reply))
  })
}

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
