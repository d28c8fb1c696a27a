/**
 * Folds the book's compacted changelog, market.book, for readers that keep rows of their own.
 *
 * One pass over all of its partitions, each up to its present end, open transactions included. Rows that are not asked for
 * are not decoded. The changelog holds the rows of now: where they must be those of a position, the caller applies the changes
 * in between.
 */
import { type Codec, DecodeError } from '#infra/kafka/codec.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { LogRecord, RangeReader } from '#infra/kafka/range-reader.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import type { BookRefreshStored, BookRowStored } from '#schemas/events/book-state.ts'
import { topics } from '#schemas/topics.ts'
import type { Instant } from '#schemas/values/instant.ts'
import { changelogSide, parseChangelogKey } from './changelog.ts'

/** Takes the records of the changelog; an item's rows are folded into a `T`. */
interface BookFold<T> {
  /** Undefined where an item's rows are not wanted. */
  targetOf(itemId: number): T | undefined
  /** A row, null where nothing is listed any more; a later one of the same provider and item replaces it. */
  row(target: T, side: Side, provider: string, itemId: number, stored: BookRowStored | null): void
  /** When a provider was last refreshed with effect: a quarantined refresh changed no rows. */
  refreshed?(side: Side, provider: string, appliedAt: Instant): void
  /** A record is no event of ours; what it throws ends the fold. */
  unreadable(error: DecodeError): void
  /** At most {@link PAGE_RECORDS} records have been taken since the last call. */
  page?(): Promise<void>
}

const PAGE_RECORDS = 10_000

export async function foldBook<T>(
  { kafka, reader }: { kafka: KafkaConnection; reader: RangeReader },
  fold: BookFold<T>,
): Promise<void> {
  const topic = kafka.topicName('book')
  for (let partition = 0; partition < topics.book.partitions; partition++) {
    const side = changelogSide(partition)
    const range = { from: 0, to: await reader.end(topic, partition) }
    for await (const fetched of reader.range(topic, new Map([[partition, range]]))) {
      for (const [at, record] of fetched.entries()) {
        take(kafka.codec, side, record, fold)
        if (at % PAGE_RECORDS === PAGE_RECORDS - 1) await fold.page?.()
      }
      await fold.page?.()
    }
  }
}

function take<T>(codec: Codec, side: Side, { key, value }: LogRecord, fold: BookFold<T>): void {
  const about = parseChangelogKey(key?.toString() ?? '')
  if (about === undefined) return
  const { kind, provider, itemId } = about
  if (kind === 'row') {
    const target = fold.targetOf(itemId)
    if (target === undefined) return
    const stored = value === null ? null : decode(codec, value, fold)
    if (stored !== undefined) fold.row(target, side, provider, itemId, stored)
    return
  }
  if (kind !== 'refresh' || value === null || !fold.refreshed) return
  const stored: BookRefreshStored | undefined = decode(codec, value, fold)
  if (stored && stored.applied_at !== null) fold.refreshed(side, provider, stored.applied_at)
}

// biome-ignore lint/suspicious/noExplicitAny: the key determines the shape.
function decode<T>(codec: Codec, value: Buffer, fold: BookFold<T>): any {
  try {
    return codec.decode(value).value
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error
    fold.unreadable(error)
  }
}
