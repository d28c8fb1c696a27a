/** Rules: DECISIONS.md, "Market items" and "Liquidity". Amounts are decimal texts in US dollars. */
import { z } from 'zod'
import { integer } from './query-values.ts'
import { instant, itemMembers, providerName } from './reply-values.ts'

const groupBy = z.enum(['item_type', 'weapon_type'])

export const indexesQuery = z.object({
  group_by: groupBy.default('item_type').meta({ description: 'Category of the groups.', example: 'item_type' }),
})

export const marketItemParams = z.object({
  item_id: integer({ min: 1 }).meta({ description: 'Catalog id of the item.', example: 4940 }),
})

/** A decimal text in US dollars with two places. */
export const usd = z.string().regex(/^-?\d+\.\d\d$/)

export const count = z.int().min(0)

/** `meta` of all answers of market analytics. */
export const marketMeta = {
  generated_at: instant.meta({ example: '2026-03-03T21:41:00.000Z' }),
  data_source: z.enum(['cache', 'live', 'mixed']),
  freshness_sec: count.meta({
    description: 'Whole seconds from the moment that the figures are of to the reply, rounded down.',
    example: 4,
  }),
  window: z.strictObject({ timeframe: z.string() }).meta({ example: { timeframe: '24h' } }),
}

export const indexesReply = z.strictObject({
  meta: z.strictObject({ ...marketMeta, group_by: groupBy }),
  data: z.strictObject({
    total_marketcap_usd: usd.meta({ example: '91244110.02' }),
    groups: z.array(
      z.strictObject({
        group: z.string().meta({ example: 'Weapon' }),
        marketcap_usd: usd.meta({ example: '91244110.02' }),
        item_count: count.meta({ example: 16_112 }),
        included_count: count.meta({ example: 12_980 }),
        excluded_count: count.meta({ example: 3_132 }),
      }),
    ),
  }),
})

const score = (most: number, example: number) => z.int().min(0).max(most).nullable().meta({ example })
const rank = z.int().min(1).meta({ example: 37 })

const difference = (example: string | null) => usd.nullable().meta({ example })
const rate = (example: number | null) => z.number().nullable().meta({ example })

const itemSummary = z
  .strictObject({
    best_ask_usd: usd.nullable().meta({ example: '29.31' }),
    best_bid_usd: usd.nullable().meta({ example: '27.10' }),
    marketcap: usd.nullable().meta({ example: '3664063.10' }),
    supply: count.nullable().meta({ description: 'Estimated units in circulation.', example: 125_010 }),
    price_diff_24h: difference('-0.42'),
    price_rate_24h: rate(-1.41),
    sales_1d: count.meta({ description: 'Estimated from falls of the listing counts.', example: 87 }),
    liquidity: score(100, 84),
    listing_score: score(18, 18),
    gap_score: score(12, 11),
    volume_score: score(45, 38),
    stability_score: score(8, 7),
    external_score: score(25, 10),
    provider_count: count.meta({ example: 31 }),
    avg_spread_pct: rate(9.12),
    total_volume_24h: count.meta({ example: 87 }),
    rank,
    price_rate_7d: rate(2.2),
    price_diff_7d: difference('0.63'),
    price_rate_30d: rate(null),
    price_diff_30d: difference(null),
    sales_7d: count.meta({ example: 602 }),
    sales_30d: count.meta({ example: 2411 }),
    liquidity_last_updated: marketMeta.generated_at,
  })
  .meta({ id: 'MarketSummary' })

export const marketItemsReply = z.strictObject({
  meta: z.strictObject(marketMeta),
  data: z.strictObject({ items: z.array(z.strictObject({ ...itemMembers, rank, summary: itemSummary })) }),
})

const itemProvider = z
  .strictObject({
    provider: providerName,
    ask_usd: usd.meta({ example: '29.31' }),
    bid_usd: usd.nullable().meta({ example: '27.10' }),
    spread_usd: difference('2.21'),
    spread_pct: z.number().nullable().meta({ description: 'Percent of the ask.', example: 7.54 }),
    ask_depth: count.meta({ example: 14 }),
    bid_depth: count.nullable().meta({ example: 6 }),
    bid_anomaly: z
      .boolean()
      .describe('The best bid exceeds the best ask: an anomaly of the data, not an opportunity to trade.'),
    volume_24h: count.meta({ example: 9 }),
    volume_7d: count.meta({ example: 61 }),
    total_value_24h_usd: usd.meta({ example: '265.14' }),
    price_rate_24h: rate(-1.41),
    price_diff_24h: difference('-0.42'),
    price_rate_7d: rate(2.2),
    price_diff_7d: difference('0.63'),
    price_rate_30d: rate(null),
    price_diff_30d: difference(null),
  })
  .meta({ id: 'MarketProvider' })

export type ItemProvider = z.infer<typeof itemProvider>

export const marketItemReply = z.strictObject({
  meta: z.strictObject({ ...marketMeta, data_source: marketMeta.data_source.meta({ example: 'mixed' }) }),
  data: z.strictObject({
    ...itemMembers,
    summary: itemSummary,
    providers: z.array(itemProvider),
    coverage: z.strictObject({
      provider_count: count.meta({ example: 1 }),
      providers_with_volume: count.meta({ example: 1 }),
      providers_with_bid_side: count.meta({ example: 1 }),
    }),
  }),
})
