/**
 * GET /market/indexes, GET /market/items and GET /market/items/:item_id.
 *
 * Rules: DECISIONS.md, "Market items" and "Liquidity". Amounts are decimal texts in US dollars.
 */
import { z } from 'zod'
import { integer } from './query-values.ts'
import { exampleItem, instant, itemMembers } from './reply-values.ts'

const groupBy = z.enum(['item_type', 'weapon_type'])

export const indexesQuery = z.object({
  group_by: groupBy.default('item_type').meta({ description: 'Category of the groups.', example: 'item_type' }),
})

export const marketItemParams = z.object({
  item_id: integer({ min: 1 }).meta({ description: 'Catalog id of the item.', example: exampleItem.item_id }),
})

/** A decimal text in US dollars with two places. */
export const usd = z.string().regex(/^-?\d+\.\d\d$/)

/** A number of things. */
export const count = z.int().min(0)

/** `meta` of all answers of market analytics. */
export const marketMeta = {
  generated_at: instant,
  data_source: z.enum(['cache', 'live', 'mixed']),
  freshness_sec: count.describe('Whole seconds from the moment that the figures are of to the reply, rounded down.'),
  window: z.strictObject({ timeframe: z.string() }),
}

/** The same in examples. */
export const exampleMarketMeta = {
  generated_at: '2026-03-03T21:41:00.000Z',
  data_source: 'cache',
  freshness_sec: 4,
  window: { timeframe: '24h' },
}

export const indexesReply = z
  .strictObject({
    meta: z.strictObject({ ...marketMeta, group_by: groupBy }),
    data: z.strictObject({
      total_marketcap_usd: usd,
      groups: z.array(
        z.strictObject({
          group: z.string(),
          marketcap_usd: usd,
          item_count: count,
          included_count: count,
          excluded_count: count,
        }),
      ),
    }),
  })
  .meta({
    example: {
      meta: { ...exampleMarketMeta, group_by: 'item_type' },
      data: {
        total_marketcap_usd: '91244110.02',
        groups: [
          {
            group: 'Weapon',
            marketcap_usd: '91244110.02',
            item_count: 16_112,
            included_count: 12_980,
            excluded_count: 3_132,
          },
        ],
      },
    },
  })

const score = (most: number) => z.int().min(0).max(most).nullable()

/** The `summary` of an item. */
const itemSummary = z
  .strictObject({
    best_ask_usd: usd.nullable(),
    best_bid_usd: usd.nullable(),
    marketcap: usd.nullable(),
    supply: count.nullable().describe('Estimated units in circulation.'),
    price_diff_24h: usd.nullable(),
    price_rate_24h: z.number().nullable(),
    sales_1d: count.describe('Estimated from falls of the listing counts.'),
    liquidity: score(100),
    listing_score: score(18),
    gap_score: score(12),
    volume_score: score(45),
    stability_score: score(8),
    external_score: score(25),
    provider_count: count,
    avg_spread_pct: z.number().nullable(),
    total_volume_24h: count,
    rank: z.int().min(1),
    price_rate_7d: z.number().nullable(),
    price_diff_7d: usd.nullable(),
    price_rate_30d: z.number().nullable(),
    price_diff_30d: usd.nullable(),
    sales_7d: count,
    sales_30d: count,
    liquidity_last_updated: instant,
  })
  .meta({ id: 'MarketSummary' })

const exampleSummary = {
  best_ask_usd: '29.31',
  best_bid_usd: '27.10',
  marketcap: '3664063.10',
  supply: 125_010,
  price_diff_24h: '-0.42',
  price_rate_24h: -1.41,
  sales_1d: 87,
  liquidity: 84,
  listing_score: 18,
  gap_score: 11,
  volume_score: 38,
  stability_score: 7,
  external_score: 10,
  provider_count: 31,
  avg_spread_pct: 9.12,
  total_volume_24h: 87,
  rank: 37,
  price_rate_7d: 2.2,
  price_diff_7d: '0.63',
  price_rate_30d: null,
  price_diff_30d: null,
  sales_7d: 602,
  sales_30d: 2411,
  liquidity_last_updated: exampleMarketMeta.generated_at,
}

export const marketItemsReply = z
  .strictObject({
    meta: z.strictObject(marketMeta),
    data: z.strictObject({
      items: z.array(z.strictObject({ ...itemMembers, rank: z.int().min(1), summary: itemSummary })),
    }),
  })
  .meta({
    example: { meta: exampleMarketMeta, data: { items: [{ ...exampleItem, rank: 37, summary: exampleSummary }] } },
  })

/** A provider that has an ask. */
const itemProvider = z
  .strictObject({
    provider: z.string(),
    ask_usd: usd,
    bid_usd: usd.nullable(),
    spread_usd: usd.nullable(),
    spread_pct: z.number().nullable().describe('Percent of the ask.'),
    ask_depth: count,
    bid_depth: count.nullable(),
    bid_anomaly: z
      .boolean()
      .describe('The best bid exceeds the best ask: an anomaly of the data, not an opportunity to trade.'),
    volume_24h: count,
    volume_7d: count,
    total_value_24h_usd: usd,
    price_rate_24h: z.number().nullable(),
    price_diff_24h: usd.nullable(),
    price_rate_7d: z.number().nullable(),
    price_diff_7d: usd.nullable(),
    price_rate_30d: z.number().nullable(),
    price_diff_30d: usd.nullable(),
  })
  .meta({ id: 'MarketProvider' })

/** A provider that has an ask. */
export type ItemProvider = z.infer<typeof itemProvider>

export const marketItemReply = z
  .strictObject({
    meta: z.strictObject(marketMeta),
    data: z.strictObject({
      ...itemMembers,
      summary: itemSummary,
      providers: z.array(itemProvider),
      coverage: z.strictObject({
        provider_count: count,
        providers_with_volume: count,
        providers_with_bid_side: count,
      }),
    }),
  })
  .meta({
    example: {
      meta: { ...exampleMarketMeta, data_source: 'mixed' },
      data: {
        ...exampleItem,
        summary: exampleSummary,
        providers: [
          {
            provider: 'provider_02',
            ask_usd: '29.31',
            bid_usd: '27.10',
            spread_usd: '2.21',
            spread_pct: 7.54,
            ask_depth: 14,
            bid_depth: 6,
            bid_anomaly: false,
            volume_24h: 9,
            volume_7d: 61,
            total_value_24h_usd: '265.14',
            price_rate_24h: -1.41,
            price_diff_24h: '-0.42',
            price_rate_7d: 2.2,
            price_diff_7d: '0.63',
            price_rate_30d: null,
            price_diff_30d: null,
          },
        ],
        coverage: { provider_count: 1, providers_with_volume: 1, providers_with_bid_side: 1 },
      },
    },
  })
