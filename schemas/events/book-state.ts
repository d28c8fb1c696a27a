/**
 * The changelog of `book` (market.book, compacted), from which it restores its state after a restart.
 *
 * Keys: `row|<provider>|<item_id>`, `withdrawn|<provider>|<item_id>` (a row of price 0), `refresh|<provider>`,
 * `position`. Partition: that of the input for asks, the number of ask partitions + that of the input for bids, so each
 * partition has one writer. Invariant: written in the same transaction as the changes that it reflects; `position` says which
 * version of the changelog its writer writes and which one a reader must know (schemas/README.md, "Versions side by side").
 */
import { addedLater, defineEvent, nullable } from './event.ts'

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
  url: nullable('string'),
})

/** The last judged refresh of a provider. */
export interface BookRefreshStored {
  /** The last judged refresh; null before the first. Refreshes that are not newer are stale. */
  refresh_id: string | null
  observed_at: number
  /** The last applied refresh's currency. */
  currency: string
  /** Why that refresh is quarantined; null when the book equals it. */
  suspect: string | null
  /** When the last applied refresh was observed; null before the first, and where a record was written before version 2. */
  applied_at: number | null
}

/** When the last applied refresh was observed; null when the record does not hold it. */
export const appliedAtOf = ({ refresh_id, observed_at, suspect, applied_at }: BookRefreshStored): number | null =>
  applied_at ?? (refresh_id === null || suspect !== null ? null : observed_at)

/** The last judged refresh of a provider. */
export const bookRefreshStored = defineEvent<BookRefreshStored>(
  'BookRefreshStored',
  2,
  'The last judged refresh of a provider.',
  {
    refresh_id: nullable('string'),
    observed_at: 'long',
    currency: 'string',
    suspect: nullable('string'),
    applied_at: addedLater('long'),
  },
)

/** The book's input position: the next offset, and the first offset of the oldest refresh that is not complete. */
export interface BookPositionStored {
  next: number
  from: number
  /** The version of the changelog that its writer writes; null: 1. */
  format: number | null
  /** The oldest version whose readers may pass over what they do not know in it; null: 1. */
  oldest_reader: number | null
}

/** Versions of a changelog. */
export interface ChangelogVersion {
  /** What this version of the platform writes, and the newest that it reads. */
  format: number
  /** The oldest version whose readers restore a right book from what this one writes. */
  oldestReader: number
}

/**
 * The changelog of this version. A new kind of record, or a new meaning, raises `format`; `oldestReader` follows one release
 * later. `make check` holds both against infra/checks/changelogs.lock.json.
 */
export const BOOK_CHANGELOG: ChangelogVersion = { format: 1, oldestReader: 1 }

/** Why this version must not read a partition of the changelog; undefined when it may. */
export function changelogFault(
  { format, oldest_reader }: Pick<BookPositionStored, 'format' | 'oldest_reader'>,
  known: ChangelogVersion = BOOK_CHANGELOG,
): string | undefined {
  if ((oldest_reader ?? 1) <= known.format) return undefined
  return (
    `market.book was written in version ${format ?? 1} of its form, whose readers must know version ${oldest_reader}; this ` +
    `process knows ${known.format}. Start the newer version again: nothing was changed or lost`
  )
}

/** How far the book has read its input partition. */
export const bookPositionStored = defineEvent<BookPositionStored>(
  'BookPositionStored',
  2,
  'How far the book has read its input partition.',
  { next: 'long', from: 'long', format: addedLater('int'), oldest_reader: addedLater('int') },
)
