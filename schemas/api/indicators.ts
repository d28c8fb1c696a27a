/** GET /market/indicators. Rules: DECISIONS.md, "Indicators". Figures are in major units of the request's currency. */
import { z } from 'zod'
import { count, marketMeta, usd } from './market.ts'
import { currency, hasItem, itemSelector, needsItem } from './query-values.ts'
import { currencyName, instant, itemMembers } from './reply-values.ts'

const interval = z.enum(['1h', '1d'])

export const indicatorsQuery = ({ isCurrency }: { isCurrency: (code: string) => boolean }) =>
  z
    .object({
      ...itemSelector,
      interval: interval.default('1d').meta({ description: 'Length of a candle.', example: '1d' }),
      currency: currency(isCurrency),
    })
    .refine(hasItem, needsItem)

const figure = (example: number | null) => z.number().nullable().meta({ example })

/** The indicators that the candles of an item give; null where there are too few. */
const indicatorValues = z.strictObject({
  momentum: z.strictObject({
    rsi_14: figure(54.21),
    macd_line: figure(0.112),
    macd_signal: figure(0.094),
    macd_histogram: figure(0.018),
    sma_20: figure(28.97),
    sma_50: figure(28.4),
    sma_200: figure(null),
    ema_12: figure(29.1),
    ema_26: figure(28.99),
    bb_upper: figure(30.4),
    bb_middle: figure(28.97),
    bb_lower: figure(27.54),
  }),
  volatility: z.strictObject({
    atr_14: figure(0.61),
    historical_volatility_20: figure(33.1),
    kc_upper: figure(30.2),
    kc_middle: figure(28.98),
    kc_lower: figure(27.76),
  }),
  volume: z.strictObject({ vwap: figure(29.04), obv: figure(412), volume_sma_20: figure(88.2) }),
  signals: z.strictObject({
    rsi: z.enum(['overbought', 'neutral', 'oversold']).nullable().meta({ example: 'neutral' }),
    macd: z.enum(['bullish', 'neutral', 'bearish']).nullable().meta({ example: 'bullish' }),
    trend: z.enum(['bullish', 'neutral', 'bearish']).nullable(),
    bollinger: z.enum(['overbought', 'neutral', 'oversold']).nullable().meta({ example: 'neutral' }),
    volatility: z.enum(['high', 'normal', 'low']).nullable().meta({ example: 'normal' }),
    composite_score: z.number().min(-1).max(1).nullable().meta({ example: 0.33 }),
  }),
})

export type IndicatorValues = z.infer<typeof indicatorValues>

export const indicatorsReply = z.strictObject({
  meta: z.strictObject({
    ...marketMeta,
    data_source: marketMeta.data_source.meta({ example: 'live' }),
    window: marketMeta.window.meta({ example: { timeframe: '365d' } }),
    interval: interval.meta({ example: '1d' }),
    currency: currencyName,
    provider: z.literal('All Providers'),
  }),
  data: z.strictObject({
    ...itemMembers,
    provider: z.literal('All Providers'),
    interval: interval.meta({ example: '1d' }),
    close_price_usd: usd.nullable().meta({ example: '29.31' }),
    ...indicatorValues.shape,
    coverage: z.strictObject({
      candle_count: count.meta({
        description: 'Candles that the figures are computed from, filled ones included.',
        example: 64,
      }),
      first_bucket: instant.nullable().meta({ example: '2025-12-29T00:00:00.000Z' }),
      last_bucket: instant.nullable().meta({ example: '2026-03-02T00:00:00.000Z' }),
      sufficient_for: z.array(z.string()).meta({ example: ['rsi_14', 'macd', 'sma_20'] }),
      insufficient_for: z.array(z.string()).meta({ example: ['sma_200'] }),
    }),
  }),
})
