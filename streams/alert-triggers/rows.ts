/**
 * Reads the rows of a partition's items as they are at the end of the changes.
 *
 * Reads market.book (the book's compacted changelog) and what came to market.book-changes meanwhile; writes nothing. One pass
 * over the changelog serves all that ask before it begins, two for the same partition among them: a rebalance opens one again while it
 * is being opened. Invariant: the rows are those after the change before
 * `next`, neither older nor newer: the first end is taken before the changelog is read, the second one, open transactions
 * included, after it, so what the changelog already held of the stretch between is applied once more, each row's last change last.
 */
import { eventOf } from '#infra/kafka/codec.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { RangeReader } from '#infra/kafka/range-reader.ts'
import { coalesce } from '#infra/runtime/async/coalesce.ts'
import type { TopicIds } from '#infra/runtime/role.ts'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { foldBook } from '#streams/book/reader.ts'
import type { Position } from '#streams/runner/positions.ts'
import type { ItemBook } from './item-book.ts'

/** Sets the rows of items in their books; undefined where an item is of none. */
export const fillBooks = (
  log: Pick<ReaderParts, 'kafka' | 'reader'>,
  booksOf: (itemId: number) => readonly ItemBook[] | undefined,
): Promise<void> =>
  foldBook(log, {
    targetOf: booksOf,
    row(books, side, provider, itemId, stored) {
      for (const book of books) book.set(side, itemId, provider, stored?.price_micro_usd ?? null)
    },
    // The role `book` stops at it; here it only changes nothing.
    unreadable: () => undefined,
  })

interface RowRequest {
  partition: number
  book: ItemBook
}

interface ReaderParts {
  kafka: KafkaConnection
  reader: RangeReader
  ids: TopicIds
}

export type RowReader = ReturnType<typeof openRowReader>

export const openRowReader = (parts: ReaderParts) =>
  coalesce((requests: readonly RowRequest[]) => readRows(parts, requests))

async function readRows(parts: ReaderParts, requests: readonly RowRequest[]): Promise<Position[]> {
  const { kafka, reader, ids } = parts
  const topic = kafka.topicName('bookChanges')
  const topicId = await ids.idOf('bookChanges')
  const starts = await Promise.all(requests.map(({ partition }) => reader.stableEnd(topic, partition)))
  const byPartition = Map.groupBy(requests, ({ partition }) => partition)
  await fillBooks(parts, itemId => byPartition.get(partitionOfItem(itemId))?.map(({ book }) => book))
  const positions: Position[] = []
  for (const [at, { partition, book }] of requests.entries()) {
    const next = await reader.end(topic, partition)
    for await (const page of reader.range(topic, new Map([[partition, { from: starts[at] ?? next, to: next }]]))) {
      for (const { value } of page) {
        const decoded = eventOf(kafka.codec, value)
        if (decoded?.event !== 'BookChanged') continue
        const { side, item_id, provider, price_micro_usd } = decoded.value as BookChanged
        book.set(side, item_id, provider, price_micro_usd)
      }
    }
    positions.push({ topicId, next })
  }
  return positions
}
