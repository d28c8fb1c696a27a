/**
 * What `market-summary` writes to market.summaries: the figures of each item, and that a summary is whole.
 *
 * The topic is compacted: an item whose figures stay the same is not written again, and MarketSummarised, written after
 * the items of its moment, says that all of them come before it. Scores are unrounded; amounts are micro-dollars.
 * What depends on other items (rank, indexes) is derived where a view is built. Invariant: the figures follow
 * from the log and the moment of the summary.
 */
import { defineEvent, optional } from './event.ts'

/** The figures of one item; null where nothing is known. */
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
  best_ask_micro_usd: optional('long'),
  best_bid_micro_usd: optional('long'),
  provider_count: 'int',
  avg_spread_pct: optional('double'),
  ask_24h_micro_usd: optional('long'),
  ask_7d_micro_usd: optional('long'),
  ask_30d_micro_usd: optional('long'),
  sales_1d: 'long',
  sales_7d: 'long',
  sales_30d: 'long',
  listing_score: optional('double'),
  gap_score: optional('double'),
  volume_score: optional('double'),
  stability_score: optional('double'),
  external_score: optional('double'),
})

/** All items of a moment come before this record. */
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
