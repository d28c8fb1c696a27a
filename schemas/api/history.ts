/**
 * GET /prices/history: parameters and answer.
 *
 * Rules: DECISIONS.md, "History and sales". Invariant: newest first; each price is in
 * hundredths of the record's currency.
 */
import { z } from 'zod'
import { hasItem, isOrdered, needsItem, needsOrder } from './candles.ts'
import { currency, integer, itemSelector, providerKey, text, time } from './query-values.ts'
import { amount, cursorPagination, instant } from './reply-values.ts'

/** What the parameters of history depend on. */
export interface HistoryScope {
  providers: readonly string[]
  isCurrency: (code: string) => boolean
}

/** Parameters of GET /prices/history. */
export const historyQuery = ({ providers, isCurrency }: HistoryScope) =>
  z
    .object({
      ...itemSelector,
      provider: providerKey(providers).optional(),
      start: time().optional(),
      end: time().optional(),
      currency: currency(isCurrency),
      limit: integer({ min: 1, max: 1000 }).default(100),
      cursor: text(1000).optional(),
    })
    .refine(hasItem, needsItem)
    .refine(isOrdered, needsOrder)

/** Parsed parameters of GET /prices/history. */
export type HistoryQuery = z.infer<ReturnType<typeof historyQuery>>

/** One observed ask. */
export const historyRecord = z.strictObject({
  item_id: z.int(),
  market_hash_name: z.string(),
  phase: z.string().nullable(),
  /** Display name. */
  provider: z.string(),
  time: instant,
  price: amount,
  currency: z.string(),
  quantity: z.int(),
})

/** Answer of GET /prices/history. */
export const historyReply = z.strictObject({
  meta: z.strictObject({
    currency: z.string(),
    filters: z.strictObject({
      item_id: z.int().optional(),
      market_hash_name: z.string().optional(),
      phase: z.string().optional(),
      provider: z.string().optional(),
      start: instant,
      end: instant,
    }),
    result_count: z.int(),
  }),
  items: z.array(historyRecord),
  pagination: cursorPagination,
})
