/**
 * The changelog of `book` (market.book, compacted), from which it restores its state after a restart.
 *
 * Keys: `row|<provider>|<item_id>`, `withdrawn|<provider>|<item_id>` (a row of price 0), `refresh|<provider>`,
 * `position`. Partition: that of the input for asks, the number of ask partitions + that of the input for bids, so each
 * partition has one writer. Invariant: written in the same transaction as the changes that it reflects.
 */
import { addedLater, defineEvent, type EventValue, nullable } from './event.ts'

/** A provider's row; a tombstone removes it. */
export const bookRowStored = defineEvent('BookRowStored', 1, "A provider's row as the book holds it.", {
  price: 'long',
  currency: 'string',
  price_micro_usd: 'long',
  quantity: 'int',
  seen_at: 'long',
  url: nullable('string'),
})

export type BookRowStored = EventValue<typeof bookRowStored>

export const bookRefreshStored = defineEvent('BookRefreshStored', 3, 'The last judged refresh of a provider.', {
  /** The last judged refresh; null before the first. Refreshes that are not newer are stale. */
  refresh_id: nullable('string'),
  observed_at: 'long',
  /** The last applied refresh's currency. */
  currency: 'string',
  /** Why that refresh is quarantined; null when the book equals it. */
  suspect: nullable('string'),
  /** When the last applied refresh was observed; null before the first. */
  applied_at: addedLater('long'),
  /** Refreshes in a row that are quarantined; null without one. */
  suspect_count: addedLater('int'),
  /** When the first of them was observed. */
  suspect_since: addedLater('long'),
})

export type BookRefreshStored = EventValue<typeof bookRefreshStored>
