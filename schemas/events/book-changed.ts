/**
 * Every change of a provider's ask or bid, and of the URL of one (market.book-changes, keyed by item).
 *
 * Prices are in the provider's currency and, at the rate of the refresh, in micro-dollars, so that every consumer
 * derives the same numbers on every replay. `source_*` is the input record that caused the change and its index in the
 * refresh, by which a consumer recognizes a repeat.
 */
import { type AvroType, addedLater, defineEvent, nullable } from './event.ts'

export type Side = 'ask' | 'bid'

/** How a provider's row changed: it was listed, its price or quantity changed, or it is no longer listed. */
export type Change = 'added' | 'updated' | 'removed'

/** A provider's ask or bid for an item changed. */
export interface BookChanged {
  side: Side
  provider: string
  item_id: number
  change: Change
  /** Hundredths of `currency`; null when removed. */
  price: number | null
  currency: string
  /** Micro-dollars at `usd_rate`; null when removed. */
  price_micro_usd: number | null
  /** Units of `currency` per US dollar, of the refresh that caused the change. */
  usd_rate: string
  /** Listings near the ask, or buy orders; 0 when removed. */
  quantity: number
  /** Micro-dollars before; null when added. */
  previous_micro_usd: number | null
  previous_quantity: number
  seen_at: number
  refresh_id: string | null
  url: string | null
  source_partition: number
  source_offset: number
  source_index: number
}

const side: AvroType = { type: 'enum', name: 'Side', symbols: ['ask', 'bid'] }
const change: AvroType = { type: 'enum', name: 'Change', symbols: ['added', 'updated', 'removed'] }

/** The last fields of every event of a row. */
const seen = {
  seen_at: 'long',
  refresh_id: nullable('string'),
  url: nullable('string'),
  source_partition: 'int',
  source_offset: 'long',
  source_index: 'int',
} as const

export const bookChanged = defineEvent<BookChanged>('BookChanged', 1, "A provider's ask or bid for an item changed.", {
  side,
  provider: 'string',
  item_id: 'int',
  change,
  price: nullable('long'),
  currency: 'string',
  price_micro_usd: nullable('long'),
  usd_rate: 'string',
  quantity: 'int',
  previous_micro_usd: nullable('long'),
  previous_quantity: 'int',
  ...seen,
})

/** The row whose URL changed, whole, so that a view needs no other record to write it; its `seen_at` stays. */
export type OfferUrlChanged = Omit<
  BookChanged,
  'change' | 'price' | 'price_micro_usd' | 'usd_rate' | 'previous_micro_usd' | 'previous_quantity'
> & { price: number; price_micro_usd: number }

/** The URL of a listed row changed, and neither its price nor its quantity. */
export const offerUrlChanged = defineEvent<OfferUrlChanged>(
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

/** Broadcast to every partition after a refresh's changes: the watermark of that provider and side. */
export interface RefreshMarked {
  side: Side
  provider: string
  refresh_id: string
  /** When the provider was last refreshed, whether or not a price changed. */
  last_updated: number
  source_partition: number
  source_offset: number
  /** The version of the catalog by which all of its names were resolved; null in records of before version 2. */
  catalog_version: string | null
}

/** All changes of a refresh come before this record in its partition. */
export const refreshMarked = defineEvent<RefreshMarked>(
  'RefreshMarked',
  2,
  'All changes of a refresh stand before this record.',
  {
    side,
    provider: 'string',
    refresh_id: 'string',
    last_updated: 'long',
    source_partition: 'int',
    source_offset: 'long',
    catalog_version: addedLater('string'),
  },
)
