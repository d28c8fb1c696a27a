/**
 * Values of portfolios: now, by day, and the profit of the ledger. Rules: DECISIONS.md, "Valuation". The value of an
 * item without a price is null, never zero, and the item is counted as missing.
 */
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
import { amount, cursorPagination, exampleCursorPage, exampleItem, instant, itemMembers } from './reply-values.ts'

/** Items of one stateless valuation. */
const VALUED_ITEMS_MAX = 100

export const valueBody = ({ providers, isCurrency }: MarketScope) =>
  z.strictObject({
    items: list(z.strictObject({ item_id: z.int().min(1), quantity: z.int().min(1).max(1_000_000) }), {
      min: 1,
      max: VALUED_ITEMS_MAX,
    }).meta({
      description: `Up to ${VALUED_ITEMS_MAX} items with their quantities.`,
      example: [{ item_id: exampleItem.item_id, quantity: 2 }],
    }),
    providers: providersMember(providers),
    currency: currencyMember(isCurrency),
  })

export const valueQuery = ({ providers, isCurrency }: MarketScope) =>
  z.object({ currency: currency(isCurrency), providers: providersParameter(providers) })

const lineItem = z
  .strictObject({
    ...itemMembers,
    quantity: z.int().min(1),
    best_ask: amount.nullable(),
    best_bid: amount.nullable(),
    item_value: amount.nullable(),
    image_url: z.string().nullable(),
    rarity_name: z.string().nullable(),
    rarity_color: z.string().nullable(),
    providers: z.array(z.strictObject({ provider: z.string(), lowest_ask: amount, quantity: z.int() })),
  })
  .meta({ id: 'ValueLine' })

const valueMeta = { currency: z.string(), generated_at: instant, providers_queried: z.array(z.string()) }

const exampleMeta = {
  currency: 'USD',
  generated_at: '2026-03-03T21:45:00.000Z',
  providers_queried: ['provider_02'],
}
const EXAMPLE_PORTFOLIO_ID = '7d9f3c52-64a8-4a0a-9d8e-0b6f6f3f2a11'

export const valueReply = z
  .strictObject({
    meta: z.strictObject(valueMeta),
    data: z.strictObject({
      line_items: z.array(lineItem),
      total_value: amount,
      items_valued: z.int().min(0),
      items_not_found: z.array(z.int()).describe('Ids that no catalog item has.'),
    }),
  })
  .meta({
    example: {
      meta: exampleMeta,
      data: {
        line_items: [
          {
            ...exampleItem,
            quantity: 2,
            best_ask: 2931,
            best_bid: 2710,
            item_value: 5862,
            image_url: null,
            rarity_name: 'Classified',
            rarity_color: 'd32ce6',
            providers: [{ provider: 'provider_02', lowest_ask: 2931, quantity: 14 }],
          },
        ],
        total_value: 5862,
        items_valued: 1,
        items_not_found: [],
      },
    },
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

export const dailyReply = z
  .strictObject({
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
        positions: z.int().min(0).describe('Items that were held.'),
        items_valued: z.int().min(0),
        items_missing_price: z.int().min(0),
      }),
    ),
    pagination: cursorPagination,
  })
  .meta({
    example: {
      meta: {
        portfolio_id: EXAMPLE_PORTFOLIO_ID,
        currency: 'USD',
        providers_queried: ['provider_02'],
        start_date: '2026-03-03',
        end_date: '2026-03-03',
        interval: '1d',
        holdings_basis: 'ledger_close',
        valuation_basis: 'best_provider_close',
      },
      data: [{ date: '2026-03-03', total_value: 5862, positions: 1, items_valued: 1, items_missing_price: 0 }],
      pagination: exampleCursorPage(365),
    },
  })

/** A gain, or a loss below zero. */
const gain = z.number().refine(Number.isInteger, 'expected a whole number')

const profitMembers = {
  bought: amount,
  sold: amount,
  fees: amount,
  cost_basis: amount,
  market_value: amount.nullable(),
  realised_profit: gain,
  unrealised_profit: gain.nullable(),
}

const exampleProfit = {
  bought: 5420,
  sold: 0,
  fees: 136,
  cost_basis: 5556,
  market_value: 5862,
  realised_profit: 0,
  unrealised_profit: 306,
}

export const performanceReply = z
  .strictObject({
    meta: z.strictObject({
      portfolio_id: z.uuid(),
      ...valueMeta,
      cost_method: z.literal('fifo'),
      rate_basis: z.literal('transaction_day'),
    }),
    data: z.strictObject({
      ...profitMembers,
      total_profit: gain.nullable(),
      items_valued: z.int().min(0),
      items_missing_price: z.int().min(0),
      items: z.array(z.strictObject({ ...itemMembers, quantity: z.int().min(0), ...profitMembers })),
    }),
  })
  .meta({
    example: {
      meta: {
        portfolio_id: EXAMPLE_PORTFOLIO_ID,
        ...exampleMeta,
        cost_method: 'fifo',
        rate_basis: 'transaction_day',
      },
      data: {
        ...exampleProfit,
        total_profit: 306,
        items_valued: 1,
        items_missing_price: 0,
        items: [{ ...exampleItem, quantity: 2, ...exampleProfit }],
      },
    },
  })
