/**
 * The changelog of `book` (market.book, compacted): what it needs to start again where it stopped.
 *
 * Keys: `row|<provider>|<item_id>`, `withdrawn|<provider>|<item_id>` (a row of price 0), `refresh|<provider>`,
 * `position`. Partition: the input's own for asks, the number of ask partitions + the input's own for
 * bids, so each partition has one writer. Invariant: written in the same transaction as the changes it
 * accounts for.
 */
import { addedLater, defineEvent, optional } from './event.ts'

/** A provider's row as the book holds it; a tombstone removes it. */
export interface BookRowStored {
  price: number
  currency: string
  price_micro_usd: number
  quantity: number
  seen_at: number
  url: string | null
}

/** A provider's row as the book holds it. */
export const bookRowStored = defineEvent<BookRowStored>('BookRowStored', 1, "A provider's row as the book holds it.", {
  price: 'long',
  currency: 'string',
  price_micro_usd: 'long',
  quantity: 'int',
  seen_at: 'long',
  url: optional('string'),
})

/** The last judged refresh of a provider. */
export interface BookRefreshStored {
  /** The last judged refresh; null before the first. Nothing as old as it is judged again. */
  refresh_id: string | null
  observed_at: number
  /** The last applied refresh's currency. */
  currency: string
  /** The reason for which that refresh is quarantined; null when the book equals it. */
  suspect: string | null
  /** When the last applied refresh was observed; null before the first, and where a record was written before version 2. */
  applied_at: number | null
}

/** When the last applied refresh was observed, as far as a record has it. */
export const appliedAtOf = ({ refresh_id, observed_at, suspect, applied_at }: BookRefreshStored): number | null =>
  applied_at ?? (refresh_id === null || suspect !== null ? null : observed_at)

/** The last judged refresh of a provider. */
export const bookRefreshStored = defineEvent<BookRefreshStored>(
  'BookRefreshStored',
  2,
  'The last judged refresh of a provider.',
  {
    refresh_id: optional('string'),
    observed_at: 'long',
    currency: 'string',
    suspect: optional('string'),
    applied_at: addedLater('long'),
  },
)

/** How far the book has read: the next input offset, and the start of the oldest refresh still open. */
export interface BookPositionStored {
  next: number
  from: number
}

/** How far the book has read its input partition. */
export const bookPositionStored = defineEvent<BookPositionStored>(
  'BookPositionStored',
  1,
  'How far the book has read its input partition.',
  { next: 'long', from: 'long' },
)
