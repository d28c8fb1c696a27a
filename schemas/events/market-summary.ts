/**
 * Events of market.summaries: the figures of each item, and the marker that completes a summary.
 *
 * The topic is compacted, and an item whose figures did not change is not written again. MarketSummarised follows the
 * items of its summary. Scores are unrounded; amounts are micro-dollars. The figures depend on the log and `as_of`
 * alone; rank and indexes, which depend on other items, are derived by the view.
 */
import { defineEvent, nullable } from './event.ts'

/** The figures of one item; null where there is no data. */
export interface ItemSummarised {
  item_id: number
  /** Lowest ask and highest bid of the providers whose quotes count. */
  best_ask_micro_usd: number | null
  best_bid_micro_usd: number | null
  /** Providers whose ask counts. */
  provider_count: number
  /** Mean of (ask - bid) / ask over the providers with both, in percent. */
  avg_spread_pct: number | null
  /** The composite best ask a day, 7 days and 30 days before. */
  ask_24h_micro_usd: number | null
  ask_7d_micro_usd: number | null
  ask_30d_micro_usd: number | null
  /** Units by which listing counts fell in a day, 7 days and 30 days. */
  sales_1d: number
  sales_7d: number
  sales_30d: number
  listing_score: number | null
  gap_score: number | null
  volume_score: number | null
  stability_score: number | null
  external_score: number | null
}

/** The figures of an item at a moment. */
export const itemSummarised = defineEvent<ItemSummarised>('ItemSummarised', 1, 'The figures of an item at a moment.', {
  item_id: 'int',
  best_ask_micro_usd: nullable('long'),
  best_bid_micro_usd: nullable('long'),
  provider_count: 'int',
  avg_spread_pct: nullable('double'),
  ask_24h_micro_usd: nullable('long'),
  ask_7d_micro_usd: nullable('long'),
  ask_30d_micro_usd: nullable('long'),
  sales_1d: 'long',
  sales_7d: 'long',
  sales_30d: 'long',
  listing_score: nullable('double'),
  gap_score: nullable('double'),
  volume_score: nullable('double'),
  stability_score: nullable('double'),
  external_score: nullable('double'),
})

/** Completes a summary: all of its items come before this record. */
export interface MarketSummarised {
  /** The moment of the figures: an input of the summary, as the time of an observation is of a refresh. */
  as_of: number
  /** Items with figures, and how many of them differ from the summary before. */
  items: number
  changed: number
}

/** A summary of the market is whole. */
export const marketSummarised = defineEvent<MarketSummarised>(
  'MarketSummarised',
  1,
  'A summary of the market is whole.',
  {
    as_of: 'long',
    items: 'int',
    changed: 'int',
  },
)
