/**
 * Restores the rows of a partition's items as they were at the group's committed offset, or at the end of the changes where no
 * rule waits.
 *
 * Reads market.book (the book's compacted changelog) and the stretch of market.book-changes from that offset to the
 * end; writes nothing. One pass over the changelog serves all partitions that ask before it begins.
 * Invariant: the rows are those after the change before `next`, neither older nor newer.
 *
 * Why so: the changelog holds the rows of now. Its reading begins after `next` is known, which no open transaction lies before, and
 * the end of the changes is taken after it, open transactions included, so a row of the changelog is either untouched since `next` or
 * its changes are in the stretch, and the first of them there holds what the row was before (`previous_micro_usd`).
 */
import { eventOf } from '#infra/kafka/codec.ts'
import { committedOffsets } from '#infra/kafka/committed-offsets.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { RangeReader } from '#infra/kafka/range-reader.ts'
import { openGathering } from '#infra/runtime/gathering.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { TopicIds } from '#infra/runtime/role.ts'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { foldBook } from '#streams/book/reader.ts'
import type { Position } from '#streams/runner/positions.ts'
import type { ItemBook } from './item-book.ts'

/** The position of a restored partition. */
interface Restored extends Position {
  /** The end of the changes when the rows were restored. */
  end: number
}

/** A partition to be restored. */
interface Restoring {
  partition: number
  book: ItemBook
  /** Called when `end` is fixed: whether any rule was enabled before it. If none was, no change before it matters. */
  isWatched(): Promise<boolean>
}

/** Restores partitions. */
export interface Restorer {
  restore(one: Restoring): Promise<Restored>
}

interface RestorerOptions {
  kafka: KafkaConnection
  reader: RangeReader
  group: string
  ids: TopicIds
  log: Log
}

/** Opens a restorer for the partitions of a process. */
export const openRestorer = (options: RestorerOptions): Restorer => ({
  restore: openGathering(wanted => restoreAll(options, wanted)),
})

async function restoreAll(options: RestorerOptions, wanted: readonly Restoring[]): Promise<Restored[]> {
  const { kafka, reader, group, ids, log } = options
  const name = kafka.topicName('bookChanges')
  const topicId = await ids.idOf('bookChanges')
  const positions = await committedOffsets(kafka, group, 'bookChanges')
  const ends = await Promise.all(wanted.map(({ partition }) => reader.stableEnd(name, partition)))
  const books = new Map(wanted.map(({ partition, book }) => [partition, book]))
  await foldBook(options, {
    targetOf: itemId => books.get(partitionOfItem(itemId)),
    row: (book, side, provider, itemId, stored) =>
      void book.set(side, itemId, provider, stored === null ? null : stored.price_micro_usd),
    // It is left to the runner's dead letters.
    unreadable: () => undefined,
  })
  const restored: Restored[] = []
  for (const [at, one] of wanted.entries()) {
    const start = await reader.start(name, one.partition)
    const end = await reader.end(name, one.partition)
    const isWatched = await one.isWatched()
    const committed = positions.get(one.partition) ?? start
    if (isWatched && (committed < start || committed > end))
      log.warn(
        { partition: one.partition, committed, start, end },
        'changes are not in the log: no rule is evaluated at them',
      )
    const next = isWatched ? Math.min(end, Math.max(start, committed)) : (ends[at] ?? end)
    const position = { topicId, next, end }
    await undo(options, one, position)
    restored.push(position)
  }
  return restored
}

/** Undoes, from the end to `next`, what the changelog already held of the stretch, by each row's first change. */
async function undo(options: RestorerOptions, one: Restoring, { next, end }: Restored): Promise<void> {
  const { kafka, reader } = options
  const { partition, book } = one
  const undone = new Set<string>()
  const range = { topic: kafka.topicName('bookChanges'), partition, from: next, to: end }
  await reader.read(range, record => {
    // What cannot be read is left to the runner's dead letters.
    const found = eventOf(kafka.codec, record.value)
    if (found?.event !== 'BookChanged') return
    const { side, item_id, provider, previous_micro_usd } = found.value as BookChanged
    const row = `${side}|${item_id}|${provider}`
    if (undone.has(row)) return
    undone.add(row)
    book.set(side, item_id, provider, previous_micro_usd)
  })
}
