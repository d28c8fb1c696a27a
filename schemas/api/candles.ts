/**
 * GET /prices/candles: parameters and answer.
 *
 * Rules: DECISIONS.md, "Candles". Windows and tiers are decided by services/api, here
 * the form of a request. Invariant: prices are hundredths of the answer's currency; times of candles
 * are Unix seconds.
 */
import { z } from 'zod'
import { parseInstant } from '../values/instant.ts'
import { boolean, currency, itemSelector, time, violates } from './query-values.ts'
import { amount, instant } from './reply-values.ts'

const LOOKBACK_FORM = /^(\d{1,5})([dh]?)$/

/** The length of a lookback (`30`, `30d`, `48h`), or undefined when the text is none. */
export function parseLookback(text: string): { count: number; unit: 'd' | 'h' } | undefined {
  const match = LOOKBACK_FORM.exec(text)
  const count = Number(match?.[1])
  return match && count > 0 ? { count, unit: match[2] === 'h' ? 'h' : 'd' } : undefined
}

/** What the parameters of candles depend on. */
export interface CandlesScope {
  isCurrency: (code: string) => boolean
  /** Longest lookback of the tier in days; null = as far as candles are kept. */
  lookbackDaysMax: number | null
}

/** Refuses a request that names no item, whatever else is wrong with it. */
export const needsItem = {
  ...violates('missing', 'Field required: item_id or market_hash_name'),
  path: ['item_id'],
  when: () => true,
}

/** Whether a request names an item. */
export const hasItem = (query: { item_id?: unknown; market_hash_name?: unknown }): boolean =>
  query.item_id !== undefined || query.market_hash_name !== undefined

/** Refuses a window that ends before it starts. */
export const needsOrder = {
  ...violates('value_error', 'end should be later than start'),
  path: ['end'],
  when: () => true,
}

/** Whether a window's bounds, where both are times, are in order. */
export function isOrdered(query: { start?: unknown; end?: unknown }): boolean {
  const [start, end] = [query.start, query.end].map(bound => parseInstant(String(bound)))
  return start === undefined || end === undefined || start < end
}

/** Parameters of GET /prices/candles. */
export const candlesQuery = ({ isCurrency, lookbackDaysMax }: CandlesScope) =>
  z
    .object({
      ...itemSelector,
      start: time().optional(),
      end: time().optional(),
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
        .optional(),
      interval: z.enum(['5m', '1h', '1d']).default('1d'),
      fill: boolean().default(false),
      currency: currency(isCurrency),
    })
    .refine(hasItem, needsItem)
    .refine(isOrdered, needsOrder)

/** Parsed parameters of GET /prices/candles. */
export type CandlesQuery = z.infer<ReturnType<typeof candlesQuery>>

/** One candle. */
export const candle = z.strictObject({
  /** Start of the bucket. */
  t: z.int(),
  o: amount,
  h: amount,
  l: amount,
  c: amount,
  /** Estimated from falls of the listing counts. */
  v: z.int(),
  /** Listings at the bucket's end. */
  q: z.int().nullable(),
  /** Keys of the providers whose asks these were. */
  providers: z.strictObject({ o: z.string(), h: z.string(), l: z.string(), c: z.string() }),
})

/** Answer of GET /prices/candles. */
export const candlesReply = z.strictObject({
  meta: z.strictObject({
    item_id: z.int(),
    market_hash_name: z.string(),
    phase: z.string().nullable(),
    provider: z.literal('All Providers'),
    currency: z.string(),
    interval: z.enum(['5m', '1h', '1d']),
    start: instant,
    end: instant,
  }),
  data: z.array(candle),
})
