/**
 * GET /sales: parameters and answer.
 *
 * Rules: DECISIONS.md, "History and sales". Invariant: newest first; null is what a
 * provider does not report, an empty list is none.
 */
import { z } from 'zod'
import { currency, decimal, integer, itemSelector, providerKey, repeated, text, violates } from './query-values.ts'
import { amount, cursorPagination, instant } from './reply-values.ts'

/** What the parameters of sales depend on. */
export interface SalesScope {
  providers: readonly string[]
  isCurrency: (code: string) => boolean
  /** Largest page of the tier, and its default. */
  pageMax: number
}

/** Parameters of GET /sales. */
export const salesQuery = ({ providers, isCurrency, pageMax }: SalesScope) =>
  z
    .object({
      ...itemSelector,
      providers: repeated(providerKey(providers)).optional(),
      min_float: decimal({ min: 0, max: 1 }).optional(),
      max_float: decimal({ min: 0, max: 1 }).optional(),
      paint_seed: integer({ min: 0, max: 999 }).optional(),
      stickers: repeated(text()).optional(),
      charms: text().optional(),
      currency: currency(isCurrency),
      limit: integer({ min: 1, max: pageMax }).default(pageMax),
      cursor: text(1000).optional(),
    })
    .refine(hasOrderedFloats, {
      ...violates('value_error', 'max_float should not be below min_float'),
      path: ['max_float'],
      when: () => true,
    })

/** Parsed parameters of GET /sales. */
export type SalesQuery = z.infer<ReturnType<typeof salesQuery>>

function hasOrderedFloats({ min_float, max_float }: { min_float?: unknown; max_float?: unknown }): boolean {
  return typeof min_float !== 'number' || typeof max_float !== 'number' || min_float <= max_float
}

/** One completed sale. */
export const saleRecord = z.strictObject({
  date: instant,
  provider: z.string(),
  price: amount,
  currency: z.string(),
  item_id: z.int(),
  market_hash_name: z.string(),
  phase: z.string().nullable(),
  float: z.number().nullable(),
  paint_seed: z.int().nullable(),
  stickers: z.array(z.strictObject({ name: z.string(), slot: z.int(), wear: z.number() })).nullable(),
  charms: z.array(z.strictObject({ name: z.string(), pattern_id: z.int() })).nullable(),
  inspect: z
    .strictObject({
      in_game: z.string().nullable(),
      screenshot_front: z.string().nullable(),
      screenshot_back: z.string().nullable(),
    })
    .nullable(),
})

/** Answer of GET /sales. */
export const salesReply = z.strictObject({
  meta: z.strictObject({
    currency: z.string(),
    filters: z.strictObject({
      item_id: z.int().nullable(),
      market_hash_name: z.string().nullable(),
      phase: z.string().nullable(),
      requested_providers: z.array(z.string()).nullable(),
      min_float: z.number().nullable(),
      max_float: z.number().nullable(),
      paint_seed: z.int().nullable(),
      stickers: z.array(z.string()).nullable(),
      charms: z.string().nullable(),
      limit: z.int(),
    }),
    providers_queried: z.array(z.string()),
    result_count: z.int(),
  }),
  items: z.array(saleRecord),
  pagination: cursorPagination,
})
