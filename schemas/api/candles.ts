/** Rules: DECISIONS.md, "Candles". Only the form is checked here; services/api decides windows and tiers. */
import { z } from 'zod'
import {
  boolean,
  currency,
  hasItem,
  isOrdered,
  itemSelector,
  type MarketScope,
  needsItem,
  needsOrder,
  timeWindow,
  violates,
} from './query-values.ts'
import { amount, currencyName, instant, itemMembers } from './reply-values.ts'

const LOOKBACK_FORM = /^(\d{1,5})([dh]?)$/

/** The length of a lookback (`30`, `30d`, `48h`), or undefined when the text is none. */
export function parseLookback(text: string): { count: number; unit: 'd' | 'h' } | undefined {
  const match = LOOKBACK_FORM.exec(text)
  const count = Number(match?.[1])
  return match && count > 0 ? { count, unit: match[2] === 'h' ? 'h' : 'd' } : undefined
}

export const candlesQuery = ({
  isCurrency,
  lookbackDaysMax,
}: Pick<MarketScope, 'isCurrency'> & { lookbackDaysMax: number | null }) =>
  z
    .object({
      ...itemSelector,
      ...timeWindow,
      lookback: z
        .string()
        .refine(
          text => parseLookback(text) !== undefined,
          violates('value_error', 'Input should be like 30, 30d or 48h'),
        )
        .refine(
          text => (parseLookback(text)?.count ?? 0) <= (lookbackDaysMax ?? Number.POSITIVE_INFINITY),
          violates('less_than_equal', `Input should be at most ${lookbackDaysMax} days`, { le: lookbackDaysMax }),
        )
        .optional()
        .meta({
          pattern: LOOKBACK_FORM.source,
          description:
            'Length of a window that ends now: `30` or `30d` for days, `48h` for hours (pro and quant). Takes precedence over `start` and `end`.',
          example: '7d',
        }),
      interval: z
        .enum(['5m', '1h', '1d'])
        .default('1d')
        .meta({ description: 'Length of a candle. Free and starter have `1d` alone.', example: '1d' }),
      fill: boolean()
        .default(false)
        .meta({ description: 'Fill empty buckets with the previous close (pro and quant).', example: false }),
      currency: currency(isCurrency),
    })
    .refine(hasItem, needsItem)
    .refine(isOrdered, needsOrder)

export type CandlesQuery = z.infer<ReturnType<typeof candlesQuery>>

const candle = z
  .strictObject({
    t: z.int().meta({ description: 'Start of the bucket.', example: 1_772_409_600 }),
    o: amount.meta({ example: 2950 }),
    h: amount.meta({ example: 3200 }),
    l: amount.meta({ example: 2899 }),
    c: amount.meta({ example: 2931 }),
    v: z.int().meta({ description: 'Estimated from falls of the listing counts.', example: 41 }),
    q: z.int().nullable().meta({ description: 'Listings at the end of the bucket.', example: 512 }),
    providers: z.strictObject({ o: z.string(), h: z.string(), l: z.string(), c: z.string() }).meta({
      description: 'Keys of the providers whose asks these were.',
      example: { o: 'provider_02', h: 'provider_09', l: 'provider_12', c: 'provider_02' },
    }),
  })
  .meta({ id: 'Candle' })

export const candlesReply = z.strictObject({
  meta: z.strictObject({
    ...itemMembers,
    provider: z.literal('All Providers'),
    currency: currencyName,
    interval: z.enum(['5m', '1h', '1d']).meta({ example: '1d' }),
    start: instant.meta({ example: '2026-03-02T00:00:00.000Z' }),
    end: instant.meta({ example: '2026-03-03T00:00:00.000Z' }),
  }),
  data: z.array(candle),
})
