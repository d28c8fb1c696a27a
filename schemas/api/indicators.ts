/**
 * GET /market/indicators. Rules: DECISIONS.md, "Indicators". Figures are in major units of the request's currency.
 */
import { z } from 'zod'
import { count, exampleMarketMeta, marketMeta, usd } from './market.ts'
import { currency, hasItem, itemSelector, needsItem } from './query-values.ts'
import { exampleItem, instant, itemMembers } from './reply-values.ts'

const interval = z.enum(['1h', '1d'])

export const indicatorsQuery = ({ isCurrency }: { isCurrency: (code: string) => boolean }) =>
  z
    .object({
      ...itemSelector,
      interval: interval.default('1d').meta({ description: 'Length of a candle.', example: '1d' }),
      currency: currency(isCurrency),
    })
    .refine(hasItem, needsItem)

const figure = z.number().nullable()

/** The indicators that the candles of an item give; null where there are too few. */
const indicatorValues = z.strictObject({
  momentum: z.strictObject({
    rsi_14: figure,
    macd_line: figure,
    macd_signal: figure,
    macd_histogram: figure,
    sma_20: figure,
    sma_50: figure,
    sma_200: figure,
    ema_12: figure,
    ema_26: figure,
    bb_upper: figure,
    bb_middle: figure,
    bb_lower: figure,
  }),
  volatility: z.strictObject({
    atr_14: figure,
    historical_volatility_20: figure,
    kc_upper: figure,
    kc_middle: figure,
    kc_lower: figure,
  }),
  volume: z.strictObject({ vwap: figure, obv: figure, volume_sma_20: figure }),
  signals: z.strictObject({
    rsi: z.enum(['overbought', 'neutral', 'oversold']).nullable(),
    macd: z.enum(['bullish', 'neutral', 'bearish']).nullable(),
    trend: z.enum(['bullish', 'neutral', 'bearish']).nullable(),
    bollinger: z.enum(['overbought', 'neutral', 'oversold']).nullable(),
    volatility: z.enum(['high', 'normal', 'low']).nullable(),
    composite_score: z.number().min(-1).max(1).nullable(),
  }),
})

export type IndicatorValues = z.infer<typeof indicatorValues>

const exampleValues = {
  momentum: {
    rsi_14: 54.21,
    macd_line: 0.112,
    macd_signal: 0.094,
    macd_histogram: 0.018,
    sma_20: 28.97,
    sma_50: 28.4,
    sma_200: null,
    ema_12: 29.1,
    ema_26: 28.99,
    bb_upper: 30.4,
    bb_middle: 28.97,
    bb_lower: 27.54,
  },
  volatility: { atr_14: 0.61, historical_volatility_20: 33.1, kc_upper: 30.2, kc_middle: 28.98, kc_lower: 27.76 },
  volume: { vwap: 29.04, obv: 412, volume_sma_20: 88.2 },
  signals: {
    rsi: 'neutral',
    macd: 'bullish',
    trend: null,
    bollinger: 'neutral',
    volatility: 'normal',
    composite_score: 0.33,
  },
}

export const indicatorsReply = z
  .strictObject({
    meta: z.strictObject({ ...marketMeta, interval, currency: z.string(), provider: z.literal('All Providers') }),
    data: z.strictObject({
      ...itemMembers,
      provider: z.literal('All Providers'),
      interval,
      close_price_usd: usd.nullable(),
      ...indicatorValues.shape,
      coverage: z.strictObject({
        candle_count: count.describe('Candles that the figures are computed from, filled ones included.'),
        first_bucket: instant.nullable(),
        last_bucket: instant.nullable(),
        sufficient_for: z.array(z.string()),
        insufficient_for: z.array(z.string()),
      }),
    }),
  })
  .meta({
    example: {
      meta: {
        ...exampleMarketMeta,
        data_source: 'live',
        window: { timeframe: '365d' },
        interval: '1d',
        currency: 'USD',
        provider: 'All Providers',
      },
      data: {
        ...exampleItem,
        provider: 'All Providers',
        interval: '1d',
        close_price_usd: '29.31',
        ...exampleValues,
        coverage: {
          candle_count: 64,
          first_bucket: '2025-12-29T00:00:00.000Z',
          last_bucket: '2026-03-02T00:00:00.000Z',
          sufficient_for: ['rsi_14', 'macd', 'sma_20'],
          insufficient_for: ['sma_200'],
        },
      },
    },
  })
