/**
 * What portfolios are worth: valuation now, by day, and what the ledger has earned.
 *
 * Rules: DECISIONS.md, "Valuation". Invariant: what has no price is null and counted, never zero.
 */
import { z } from 'zod'
import { parseInstant } from '../values/instant.ts'
import { currency, DEFAULT_CURRENCY, integer, optional, providerKey, repeated, text, violates } from './query-values.ts'
import { amount, cursorPagination, instant } from './reply-values.ts'

/** What valuations depend on. */
export interface ValuationScope {
  providers: readonly string[]
  isCurrency: (code: string) => boolean
}

/** Items of one stateless valuation. */
export const VALUED_ITEMS_MAX = 100

/** Body of POST /portfolio/value. */
export const valueBody = ({ providers, isCurrency }: ValuationScope) =>
  z.strictObject({
    items: z
      .array(z.strictObject({ item_id: z.int().min(1), quantity: z.int().min(1).max(1_000_000) }))
      .min(1)
      .max(VALUED_ITEMS_MAX),
    providers: optional(z.array(providerKey(providers))),
    currency: optional(currency(isCurrency)).transform(code => code ?? DEFAULT_CURRENCY),
  })

/** Query of GET /portfolio/:id/value and of GET /portfolio/:id/performance. */
export const valueQuery = ({ providers, isCurrency }: ValuationScope) =>
  z.object({ currency: currency(isCurrency), providers: repeated(providerKey(providers)).optional() })

const lineItem = z.strictObject({
  item_id: z.int(),
  market_hash_name: z.string(),
  phase: z.string().nullable(),
  quantity: z.int().min(1),
  best_ask: amount.nullable(),
  best_bid: amount.nullable(),
  item_value: amount.nullable(),
  image_url: z.string().nullable(),
  rarity_name: z.string().nullable(),
  rarity_color: z.string().nullable(),
  providers: z.array(z.strictObject({ provider: z.string(), lowest_ask: amount, quantity: z.int() })),
})

const valueMeta = { currency: z.string(), generated_at: instant, providers_queried: z.array(z.string()) }

/** Answer of both valuations. */
export const valueReply = z.strictObject({
  meta: z.strictObject(valueMeta),
  data: z.strictObject({
    line_items: z.array(lineItem),
    total_value: amount,
    items_valued: z.int().min(0),
    /** Ids without a catalog item. */
    items_not_found: z.array(z.int()),
  }),
})

const day = () =>
  z
    .string()
    .refine(
      value => /^\d{4}-\d\d-\d\d$/.test(value) && parseInstant(value) !== undefined,
      violates('date_from_datetime_parsing', 'Input should be a day, YYYY-MM-DD'),
    )

/** Days of one page of values, at most and by default. */
export const DAYS_PAGE = { max: 2000, default: 365 }

/** Query of GET /portfolio/:id/history. */
export const dailyQuery = (scope: ValuationScope) =>
  valueQuery(scope).extend({
    start_date: day().optional(),
    end_date: day().optional(),
    lookback: z
      .string()
      .refine(
        value => /^[1-9]\d{0,4}d?$/.test(value),
        violates('value_error', 'Input should be a number of days such as 30d'),
      )
      .transform(value => Number.parseInt(value, 10))
      .optional(),
    limit: integer({ min: 1, max: DAYS_PAGE.max }).default(DAYS_PAGE.default),
    cursor: text(500).optional(),
  })

/** Answer of GET /portfolio/:id/history. */
export const dailyReply = z.strictObject({
  meta: z.strictObject({
    portfolio_id: z.uuid(),
    currency: z.string(),
    providers_queried: z.array(z.string()),
    start_date: z.iso.date(),
    end_date: z.iso.date(),
    interval: z.literal('1d'),
    holdings_basis: z.literal('ledger_close'),
    valuation_basis: z.literal('best_provider_close'),
  }),
  data: z.array(
    z.strictObject({
      date: z.iso.date(),
      total_value: amount,
      /** Items that were held. */
      positions: z.int().min(0),
      items_valued: z.int().min(0),
      items_missing_price: z.int().min(0),
    }),
  ),
  pagination: cursorPagination,
})

/** A gain, or a loss below zero. */
const gain = z.number().refine(Number.isInteger, 'expected a whole number')

const earned = {
  bought: amount,
  sold: amount,
  fees: amount,
  cost_basis: amount,
  market_value: amount.nullable(),
  realised_profit: gain,
  unrealised_profit: gain.nullable(),
}

/** Answer of GET /portfolio/:id/performance. */
export const performanceReply = z.strictObject({
  meta: z.strictObject({
    portfolio_id: z.uuid(),
    ...valueMeta,
    cost_method: z.literal('fifo'),
    rate_basis: z.literal('transaction_day'),
  }),
  data: z.strictObject({
    ...earned,
    total_profit: gain.nullable(),
    items_valued: z.int().min(0),
    items_missing_price: z.int().min(0),
    items: z.array(
      z.strictObject({
        item_id: z.int(),
        market_hash_name: z.string(),
        phase: z.string().nullable(),
        quantity: z.int().min(0),
        ...earned,
      }),
    ),
  }),
})
