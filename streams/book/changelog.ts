/**
 * The book's changelog: how its state is written to market.book and read back. Others read it by reader.ts.
 *
 * Keys: `row|<provider>|<item_id>`, `refresh|<provider>`, and `withdrawn|<provider>|<item_id>` for what a pushing provider took
 * back, whose age no refresh gives. Invariant: restoring what was written yields the books as they were at the last transaction,
 * but for the refreshes under way, which the runner reads from the input again.
 */
import type { Codec } from '#infra/kafka/codec.ts'
import type { Outgoing } from '#infra/kafka/publisher.ts'
import type { BookChanged, OfferUrlChanged, Side } from '#schemas/events/book-changed.ts'
import {
  type BookRefreshStored,
  type BookRowStored,
  bookRefreshStored,
  bookRowStored,
} from '#schemas/events/book-state.ts'
import { PROVIDER_PARTITIONS, type TopicKey } from '#schemas/topics.ts'
import { type ProviderBook, setRow } from './provider-book.ts'
import { type Books, bookOf } from './step.ts'

/** Asks take the first half of the changelog's partitions, bids the second, so each has one writer. */
export const changelogPartition = (topic: TopicKey, partition: number): number =>
  topic === 'bids' ? PROVIDER_PARTITIONS + partition : partition

export const changelogSide = (partition: number): Side => (partition < PROVIDER_PARTITIONS ? 'ask' : 'bid')

/** Reads a key; undefined when it is none of ours. The item id is of no meaning where the record is about a refresh. */
export function parseChangelogKey(key: string) {
  const [kind, provider, itemId] = key.split('|')
  if (provider === undefined || (kind !== 'row' && kind !== 'refresh' && kind !== 'withdrawn')) return undefined
  return { kind, provider, itemId: Number(itemId) } as const
}

type ChangelogRecord = Outgoing & { partition: number }

export function rowRecord(codec: Codec, partition: number, change: BookChanged | OfferUrlChanged): ChangelogRecord {
  const { price, currency, price_micro_usd, quantity, seen_at, url } = change
  const row = { currency, price_micro_usd: price_micro_usd ?? 0, quantity, seen_at, url }
  return {
    topic: 'book',
    partition,
    key: `row|${change.provider}|${change.item_id}`,
    value: price === null ? null : codec.encode(bookRowStored, { price, ...row }),
  }
}

const NOT_LISTED: Omit<BookRowStored, 'currency'> = { price: 0, price_micro_usd: 0, quantity: 0, seen_at: 0, url: null }

/**
 * The changelog record that keeps the time of a pushed withdrawal, beside the tombstone of its row: an older
 * observation that comes after it must not bring the row back. A row that is listed again outdates it.
 */
export function withdrawnRecord(codec: Codec, partition: number, change: BookChanged): ChangelogRecord {
  const { provider, item_id, currency, seen_at } = change
  const value = codec.encode(bookRowStored, { ...NOT_LISTED, currency, seen_at })
  return { topic: 'book', partition, key: `withdrawn|${provider}|${item_id}`, value }
}

export function refreshRecord(codec: Codec, partition: number, book: ProviderBook): ChangelogRecord {
  const stored: BookRefreshStored = {
    refresh_id: book.lastRefreshId,
    observed_at: book.lastObservedAt,
    currency: book.currency,
    suspect: book.suspicion?.reason ?? null,
    applied_at: book.lastAppliedAt,
    suspect_count: book.suspicion?.count ?? null,
    suspect_since: book.suspicion?.since ?? null,
  }
  return { topic: 'book', partition, key: `refresh|${book.provider}`, value: codec.encode(bookRefreshStored, stored) }
}

export function loadChangelog(books: Books, side: Side, key: string, value: unknown): void {
  const parsed = parseChangelogKey(key)
  if (parsed === undefined) return
  const { kind, provider, itemId } = parsed
  const book = bookOf(books, side, provider)
  if (kind === 'refresh') {
    if (value === null) return
    const stored = value as BookRefreshStored
    const { suspect: reason, suspect_count: count, suspect_since: since } = stored
    book.lastRefreshId = stored.refresh_id
    book.lastObservedAt = stored.observed_at
    book.suspicion = reason === null || count === null || since === null ? null : { reason, count, since }
    book.currency = stored.currency
    book.lastAppliedAt = stored.applied_at
  } else {
    const row = value as BookRowStored | null
    if (row) book.currency = row.currency
    const { price, price_micro_usd: microUsd, quantity, seen_at: seenAt, url } = row ?? NOT_LISTED
    setRow(book, itemId, { price, microUsd, quantity, seenAt, url })
  }
}
