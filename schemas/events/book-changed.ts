/**
 * Every change of a provider's ask or bid, and of the URL of one (market.book-changes, keyed by item).
 *
 * Prices are in the provider's currency and, at the rate of the refresh, in micro-dollars, so that every consumer
 * derives the same numbers on every replay. `source_*` is the input record that caused the change and its index in the
 * refresh, by which a consumer recognizes a repeat.
 */
import { addedLater, defineEvent, type EventValue, nullable } from './event.ts'

export const side = { type: 'enum', name: 'Side', symbols: ['ask', 'bid'] } as const

/** The last fields of every event of a row. */
const seen = {
  seen_at: 'long',
  refresh_id: nullable('string'),
  url: nullable('string'),
  source_partition: 'int',
  source_offset: 'long',
  source_index: 'int',
} as const

export const bookChanged = defineEvent('BookChanged', 1, "A provider's ask or bid for an item changed.", {
  side,
  provider: 'string',
  item_id: 'int',
  /** How a provider's row changed: it was listed, its price or quantity changed, or it is no longer listed. */
  change: { type: 'enum', name: 'Change', symbols: ['added', 'updated', 'removed'] },
  /** Hundredths of `currency`; null when removed. */
  price: nullable('long'),
  currency: 'string',
  /** Micro-dollars at `usd_rate`; null when removed. */
  price_micro_usd: nullable('long'),
  /** Units of `currency` per US dollar, of the refresh that caused the change. */
  usd_rate: 'string',
  /** Listings near the ask, or buy orders; 0 when removed. */
  quantity: 'int',
  /** Micro-dollars before; null when added. */
  previous_micro_usd: nullable('long'),
  previous_quantity: 'int',
  ...seen,
})

export type BookChanged = EventValue<typeof bookChanged>
export type Side = BookChanged['side']
export type Change = BookChanged['change']

/** The row whose URL changed, whole, so that a view needs no other record to write it; its `seen_at` stays. */
export const offerUrlChanged = defineEvent(
  'OfferUrlChanged',
  1,
  'The URL of a listed row changed, and neither its price nor its quantity.',
  {
    side,
    provider: 'string',
    item_id: 'int',
    price: 'long',
    currency: 'string',
    price_micro_usd: 'long',
    quantity: 'int',
    ...seen,
  },
)

export type OfferUrlChanged = EventValue<typeof offerUrlChanged>

/**
 * Broadcast to every partition after a refresh's changes, all of which come before it: the watermark of that provider and
 * side.
 */
export const refreshMarked = defineEvent('RefreshMarked', 2, 'All changes of a refresh stand before this record.', {
  side,
  provider: 'string',
  refresh_id: 'string',
  /** When the provider was last refreshed, whether or not a price changed. */
  last_updated: 'long',
  source_partition: 'int',
  source_offset: 'long',
  /** The version of the catalog by which all of its names were resolved; null in records of before version 2. */
  catalog_version: addedLater('string'),
})

export type RefreshMarked = EventValue<typeof refreshMarked>
