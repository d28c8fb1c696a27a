/**
 * Market analytics: parameters and answers of arbitrage, indexes, items, indicators and the history chart.
 *
 * Rules: DECISIONS.md, "Arbitrage", "Market items", "Indicators" and "History chart". Invariant: members named
 * `*_usd` are decimal texts in dollars; what is not known is null.
 */
import { z } from 'zod'
import { parseInstant } from '../values/instant.ts'
import { hasItem, needsItem } from './candles.ts'
import {
  boolean,
  currency,
  decimal,
  integer,
  itemSelector,
  providerKey,
  repeated,
  text,
  time,
  violates,
} from './query-values.ts'
import { amount, instant } from './reply-values.ts'

/** What the parameters of market analytics depend on. */
export interface MarketScope {
  askKeys: readonly string[]
  bidKeys: readonly string[]
  isCurrency: (code: string) => boolean
}

/** Parameters of GET /market/arbitrage; `cursor` is refused before they are read. */
export const arbitrageQuery = ({ askKeys, bidKeys }: Pick<MarketScope, 'askKeys' | 'bidKeys'>) =>
  z.object({
    min_spread_pct: decimal({ min: -100, max: 1_000_000_000 }).default(1),
    providers_buy: repeated(providerKey(askKeys)).optional(),
    providers_sell: repeated(providerKey(bidKeys)).optional(),
    limit: integer({ min: 1, max: 1000 }).default(100),
    offset: integer({ min: 0 }).default(0),
  })

/** Parsed parameters of GET /market/arbitrage. */
export type ArbitrageQuery = z.infer<ReturnType<typeof arbitrageQuery>>

/** Parameters of GET /market/indexes. */
export const indexesQuery = z.object({ group_by: z.enum(['item_type', 'weapon_type']).default('item_type') })

/** Parameters of GET /market/indicators. */
export const indicatorsQuery = ({ isCurrency }: Pick<MarketScope, 'isCurrency'>) =>
  z
    .object({
      ...itemSelector,
      interval: z.enum(['1h', '1d']).default('1d'),
      currency: currency(isCurrency),
    })
    .refine(hasItem, needsItem)

/** Parsed parameters of GET /market/indicators. */
export type IndicatorsQuery = z.infer<ReturnType<typeof indicatorsQuery>>

/** Parameters of GET /market/history/chart. */
export const historyChartQuery = ({ askKeys, isCurrency }: Pick<MarketScope, 'askKeys' | 'isCurrency'>) =>
  z
    .object({
      item_id: integer({ min: 1 }).optional(),
      market_hash_name: text().optional(),
      providers: repeated(providerKey(askKeys)).optional(),
      start: time().optional(),
      end: time().optional(),
      lookback: integer({ min: 1, max: 36_500 }).optional(),
      currency: currency(isCurrency),
      include_defunct: boolean().default(false),
    })
    .refine(hasItem, needsItem)
    .refine(query => query.lookback !== undefined || isOrdered(query.start, query.end), {
      ...violates('value_error', 'end should be later than start'),
      path: ['end'],
      when: () => true,
    })

/** Parsed parameters of GET /market/history/chart. */
export type HistoryChartQuery = z.infer<ReturnType<typeof historyChartQuery>>

const usd = z.string().regex(/^-?\d+\.\d\d$/)
const count = z.int().min(0)

const meta = {
  generated_at: instant,
  data_source: z.enum(['cache', 'live', 'mixed']),
  /** Whole seconds between the moment that the figures speak of and the answer, rounded down. */
  freshness_sec: count,
  window: z.strictObject({ timeframe: z.string() }),
}

const named = { item_id: z.int(), market_hash_name: z.string(), phase: z.string().nullable() }

/** One pair of an ask and a bid. */
export const arbitrageItem = z.strictObject({
  ...named,
  buy_provider: z.string(),
  sell_provider: z.string(),
  buy_price_usd: usd,
  sell_price_usd: usd,
  estimated_fees_usd: usd,
  net_profit_usd: usd,
  gross_spread_pct: z.number(),
  /** The smaller side. */
  quantity: count,
  /** Of the more recent leg. */
  last_updated: instant,
  buy_last_updated: instant,
  sell_last_updated: instant,
})

/** Answer of GET /market/arbitrage. */
export const arbitrageReply = z.strictObject({
  meta: z.strictObject({
    ...meta,
    /** Quotes of the queried providers that take no part, by reason. */
    excluded: z.strictObject({ stale: count, down: count, quarantined: count }),
  }),
  data: z.strictObject({ items: z.array(arbitrageItem) }),
  pagination: z.strictObject({
    limit: z.int().min(1),
    offset: z.int().min(0),
    total: z.literal(-1),
    has_next: z.boolean(),
    has_prev: z.boolean(),
  }),
})

/** Answer of GET /market/indexes. */
export const indexesReply = z.strictObject({
  meta: z.strictObject({ ...meta, group_by: z.enum(['item_type', 'weapon_type']) }),
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

const score = (most: number) => z.int().min(0).max(most).nullable()

/** The `summary` of an item. */
export const itemSummary = z.strictObject({
  best_ask_usd: usd.nullable(),
  best_bid_usd: usd.nullable(),
  marketcap: usd.nullable(),
  /** Estimated units in circulation. */
  supply: count.nullable(),
  price_diff_24h: usd.nullable(),
  price_rate_24h: z.number().nullable(),
  /** Estimated from falls of the listing counts. */
  sales_1d: count,
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

/** Answer of GET /market/items. */
export const marketItemsReply = z.strictObject({
  meta: z.strictObject(meta),
  data: z.strictObject({
    items: z.array(z.strictObject({ ...named, rank: z.int().min(1), summary: itemSummary })),
  }),
})

/** A provider that has an ask. */
export const itemProvider = z.strictObject({
  provider: z.string(),
  ask_usd: usd,
  bid_usd: usd.nullable(),
  spread_usd: usd.nullable(),
  /** Of the ask. */
  spread_pct: z.number().nullable(),
  ask_depth: count,
  bid_depth: count.nullable(),
  /** The best bid exceeds the best ask: an anomaly of the data, not a state to trade on. */
  bid_anomaly: z.boolean(),
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

/** A provider that has an ask. */
export type ItemProvider = z.infer<typeof itemProvider>

/** Answer of GET /market/items/:item_id. */
export const marketItemReply = z.strictObject({
  meta: z.strictObject(meta),
  data: z.strictObject({
    ...named,
    summary: itemSummary,
    providers: z.array(itemProvider),
    coverage: z.strictObject({
      provider_count: count,
      providers_with_volume: count,
      providers_with_bid_side: count,
    }),
  }),
})

const figure = z.number().nullable()

/** What the candles of an item come to. */
export const indicatorValues = z.strictObject({
  momentum: z.strictObject({
    rsi_14: figure,
    macd_line: figure,
    macd_signal: figure,
    macd_histogram: figure,
    sma_20: figure,
    sma_50: figure,
    sma_200: figure,
    ema_12: figure,
    ema_26: figure,
    bb_upper: figure,
    bb_middle: figure,
    bb_lower: figure,
  }),
  volatility: z.strictObject({
    atr_14: figure,
    historical_volatility_20: figure,
    kc_upper: figure,
    kc_middle: figure,
    kc_lower: figure,
  }),
  volume: z.strictObject({ vwap: figure, obv: figure, volume_sma_20: figure }),
  signals: z.strictObject({
    rsi: z.enum(['overbought', 'neutral', 'oversold']).nullable(),
    macd: z.enum(['bullish', 'neutral', 'bearish']).nullable(),
    trend: z.enum(['bullish', 'neutral', 'bearish']).nullable(),
    bollinger: z.enum(['overbought', 'neutral', 'oversold']).nullable(),
    volatility: z.enum(['high', 'normal', 'low']).nullable(),
    composite_score: z.number().min(-1).max(1).nullable(),
  }),
})

/** What the candles of an item come to. */
export type IndicatorValues = z.infer<typeof indicatorValues>

/** Answer of GET /market/indicators. */
export const indicatorsReply = z.strictObject({
  meta: z.strictObject({
    ...meta,
    interval: z.enum(['1h', '1d']),
    currency: z.string(),
    provider: z.literal('All Providers'),
  }),
  data: z.strictObject({
    ...named,
    provider: z.literal('All Providers'),
    interval: z.enum(['1h', '1d']),
    close_price_usd: usd.nullable(),
    ...indicatorValues.shape,
    coverage: z.strictObject({
      /** Candles that the figures rest on, filled ones included. */
      candle_count: count,
      first_bucket: instant.nullable(),
      last_bucket: instant.nullable(),
      sufficient_for: z.array(z.string()),
      insufficient_for: z.array(z.string()),
    }),
  }),
})

/** Answer of GET /market/history/chart. */
export const historyChartReply = z.strictObject({
  meta: z.strictObject({
    item_id: z.int(),
    market_hash_name: z.string(),
    currency: z.string(),
    start: instant,
    end: instant,
    providers: z.array(z.string()),
  }),
  series: z.array(
    z.strictObject({
      provider: z.string(),
      data: z.array(z.strictObject({ t: z.int(), price: amount, qty: z.int().nullable() })),
    }),
  ),
})

function isOrdered(start: string | undefined, end: string | undefined): boolean {
  const [from, to] = [start, end].map(bound => parseInstant(bound ?? ''))
  return from === undefined || to === undefined || from < to
}
