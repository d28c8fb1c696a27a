/** Rules: DECISIONS.md, "Valuation". An item without a price counts as missing; its value is null, never zero. */
import { z } from 'zod'
import {
  currency,
  currencyMember,
  day,
  integer,
  list,
  type MarketScope,
  pageCursor,
  providersMember,
  providersParameter,
  violates,
} from './query-values.ts'
import { amount, currencyName, cursorPages, instant, itemMembers, providerName } from './reply-values.ts'

const VALUED_ITEMS_MAX = 100

export const valueBody = ({ providers, isCurrency }: MarketScope) =>
  z.strictObject({
    items: list(z.strictObject({ item_id: z.int().min(1), quantity: z.int().min(1).max(1_000_000) }), {
      min: 1,
      max: VALUED_ITEMS_MAX,
    }).meta({
      description: `Up to ${VALUED_ITEMS_MAX} items with their quantities.`,
      example: [{ item_id: 4940, quantity: 2 }],
    }),
    providers: providersMember(providers),
    currency: currencyMember(isCurrency),
  })

export const valueQuery = ({ providers, isCurrency }: MarketScope) =>
  z.object({ currency: currency(isCurrency), providers: providersParameter(providers) })

const lineItem = z
  .strictObject({
    ...itemMembers,
    quantity: z.int().min(1).meta({ example: 2 }),
    best_ask: amount.nullable().meta({ example: 2931 }),
    best_bid: amount.nullable().meta({ example: 2710 }),
    item_value: amount.nullable().meta({ example: 5862 }),
    image_url: z.string().nullable(),
    rarity_name: z.string().nullable().meta({ example: 'Classified' }),
    rarity_color: z.string().nullable().meta({ example: 'd32ce6' }),
    providers: z
      .array(z.strictObject({ provider: z.string(), lowest_ask: amount, quantity: z.int() }))
      .meta({ example: [{ provider: 'provider_02', lowest_ask: 2931, quantity: 14 }] }),
  })
  .meta({ id: 'ValueLine' })

const valueMeta = {
  currency: currencyName,
  generated_at: instant.meta({ example: '2026-03-03T21:45:00.000Z' }),
  providers_queried: z.array(providerName),
}
const portfolioId = z.uuid().meta({ example: '7d9f3c52-64a8-4a0a-9d8e-0b6f6f3f2a11' })
const itemsValued = z.int().min(0).meta({ example: 1 })
const itemsMissing = z.int().min(0).meta({ example: 0 })

export const valueReply = z.strictObject({
  meta: z.strictObject(valueMeta),
  data: z.strictObject({
    line_items: z.array(lineItem),
    total_value: amount.meta({ example: 5862 }),
    items_valued: itemsValued,
    items_not_found: z.array(z.int()).meta({ description: 'Ids that no catalog item has.', example: [] }),
  }),
})

/** Days of one page of values, at most and by default. */
const DAYS_PAGE = { max: 2000, default: 365 }

const LOOKBACK_FORM = /^[1-9]\d{0,4}d?$/

export const dailyQuery = (scope: MarketScope) =>
  valueQuery(scope).extend({
    start_date: day().optional().meta({
      description: 'First day of the window, included. The day of the first transaction when left out.',
      example: '2026-01-01',
    }),
    end_date: day()
      .optional()
      .meta({ description: 'Last day of the window, included. Today when left out.', example: '2026-03-31' }),
    lookback: z
      .string()
      .refine(
        value => LOOKBACK_FORM.test(value),
        violates('value_error', 'Input should be a number of days such as 30d'),
      )
      .transform(value => Number.parseInt(value, 10))
      .optional()
      .meta({
        pattern: LOOKBACK_FORM.source,
        description:
          'Length of the window in days, up to `end_date`: `30` or `30d`. Takes precedence over `start_date`.',
        example: '7d',
      }),
    limit: integer({ min: 1, max: DAYS_PAGE.max })
      .default(DAYS_PAGE.default)
      .meta({ description: `Days of a page, ${DAYS_PAGE.default} by default.`, example: 50 }),
    cursor: pageCursor(500),
  })

const exampleDay = z.iso.date().meta({ example: '2026-03-03' })

export const dailyReply = z.strictObject({
  meta: z.strictObject({
    portfolio_id: portfolioId,
    currency: currencyName,
    providers_queried: z.array(providerName),
    start_date: exampleDay,
    end_date: exampleDay,
    interval: z.literal('1d'),
    holdings_basis: z.literal('ledger_close'),
    valuation_basis: z.literal('best_provider_close'),
  }),
  data: z.array(
    z.strictObject({
      date: exampleDay,
      total_value: amount.meta({ example: 5862 }),
      positions: z.int().min(0).meta({ description: 'Items that were held.', example: 1 }),
      items_valued: itemsValued,
      items_missing_price: itemsMissing,
    }),
  ),
  pagination: cursorPages(365),
})

/** A gain, or a loss below zero. */
const gain = z.number().refine(Number.isInteger, 'expected a whole number')

const profitMembers = {
  bought: amount.meta({ example: 5420 }),
  sold: amount.meta({ example: 0 }),
  fees: amount.meta({ example: 136 }),
  cost_basis: amount.meta({ example: 5556 }),
  market_value: amount.nullable().meta({ example: 5862 }),
  realised_profit: gain.meta({ example: 0 }),
  unrealised_profit: gain.nullable().meta({ example: 306 }),
}

export const performanceReply = z.strictObject({
  meta: z.strictObject({
    portfolio_id: portfolioId,
    ...valueMeta,
    cost_method: z.literal('fifo'),
    rate_basis: z.literal('transaction_day'),
  }),
  data: z.strictObject({
    ...profitMembers,
    total_profit: gain.nullable().meta({ example: 306 }),
    items_valued: itemsValued,
    items_missing_price: itemsMissing,
    items: z.array(z.strictObject({ ...itemMembers, quantity: z.int().min(0).meta({ example: 2 }), ...profitMembers })),
  }),
})
