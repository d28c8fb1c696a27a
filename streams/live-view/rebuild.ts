/**
 * Builds partitions of the live table from the book's own compacted changelog.
 *
 * Reads market.book and the stretch of market.book-changes that was written meanwhile; writes rows of
 * new generations that no head names yet. One pass over the changelog serves all partitions that ask
 * before it begins. Invariant: the result reflects market.book-changes up to exactly `next`.
 *
 * Why it is complete: `from` is taken before the changelog is read, and a change below it is committed,
 * so its row is below the changelog's end, open transactions included, up to which is read. `next`
 * is taken after, open transactions included, and the stretch between is applied as whole rows, so it
 * does not matter which of them the changelog already held.
 */
import type { Decoded } from '#infra/kafka/codec.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { LogRecord, RangeReader } from '#infra/kafka/range-reader.ts'
import { writeGuarded } from '#infra/redis/guarded-write.ts'
import type { Redis } from '#infra/redis/redis.ts'
import { openGathering } from '#infra/runtime/gathering.ts'
import type { TopicIds } from '#infra/runtime/role.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { foldBook } from '#streams/book/reader.ts'
import { emptyBatch, foldChange, foldMarker, foldRefreshed, foldRow, headAfter, type LiveBatch } from './step.ts'
import { generationsKey, LIVE_FORMAT, type LiveHead } from './table.ts'
import { writesOf } from './writes.ts'

/** Builds partitions of the live table. */
export interface Rebuilder {
  /** Fills a new generation; resolves with its head, which the caller writes. */
  rebuild(partition: number): Promise<LiveHead>
  /** Brings a filled generation, which no head names yet, to the log's end of now. */
  catchUp(partition: number, head: LiveHead): Promise<LiveHead>
}

/** What a rebuilder works with. */
interface RebuilderOptions {
  kafka: KafkaConnection
  reader: RangeReader
  ids: TopicIds
  redis: Redis
  prefix: string
}

/** A partition being filled. */
interface Filling {
  partition: number
  head: LiveHead
  batch: LiveBatch
}

/** Opens a rebuilder for the partitions of a process. */
export function openRebuilder(options: RebuilderOptions): Rebuilder {
  return {
    rebuild: openGathering(async partitions => {
      const filled = await fillAll(options, partitions)
      return partitions.map(partition => (filled.get(partition) as Filling).head)
    }),
    async catchUp(partition, head) {
      const filling: Filling = { partition, head, batch: emptyBatch() }
      await readChanges(options, filling)
      return filling.head
    },
  }
}

async function fillAll(options: RebuilderOptions, partitions: readonly number[]): Promise<Map<number, Filling>> {
  const { kafka, reader, ids, redis, prefix } = options
  const topicId = await ids.idOf('bookChanges')
  const changes = kafka.topicName('bookChanges')
  const fillings = new Map<number, Filling>()
  for (const partition of new Set(partitions)) {
    const generation = await redis.incr(generationsKey(partition, prefix))
    const next = await reader.stableEnd(changes, partition)
    fillings.set(partition, {
      partition,
      head: { format: LIVE_FORMAT, generation, topicId, next, ask: {}, bid: {} },
      batch: emptyBatch(),
    })
  }
  if (partitions.length > 0) await readBook(options, fillings)
  for (const filling of fillings.values()) await readChanges(options, filling)
  return fillings
}

/** Reads the book's rows into the partitions being filled. Readers are shown the time of the refresh that changed the rows. */
async function readBook(options: RebuilderOptions, fillings: ReadonlyMap<number, Filling>): Promise<void> {
  const all = [...fillings.values()]
  const writer = openPageWriter(() => Promise.all(all.map(each => write(options, each))))
  await foldBook(options, {
    targetOf: itemId => fillings.get(partitionOfItem(itemId)),
    row: (filling, side, provider, itemId, stored) => foldRow(filling.batch, { side, provider, itemId, stored }),
    refreshed(side, provider, at) {
      for (const { batch } of all) foldRefreshed(batch, side, provider, at)
    },
    unreadable(error) {
      throw error
    },
    page: writer.page,
  })
  await writer.end()
}

/** Applies what was written to market.book-changes since the filling began. */
async function readChanges(options: RebuilderOptions, filling: Filling): Promise<void> {
  const { kafka, reader } = options
  const topic = kafka.topicName('bookChanges')
  const to = await reader.end(topic, filling.partition)
  const writer = openPageWriter(() => write(options, filling))
  const fold = ({ event, value }: Decoded): void => {
    if (event === 'BookChanged' || event === 'OfferUrlChanged') foldChange(filling.batch, value)
    else if (event === 'RefreshMarked') foldMarker(filling.batch, value)
  }
  let taken = 0
  const onRecord = ({ value }: LogRecord): void | Promise<void> => {
    if (value === null) return
    taken += 1
    fold(kafka.codec.decode(value))
    return taken % PAGE_RECORDS === 0 ? writer.page() : undefined
  }
  await reader.read({ topic, partition: filling.partition, from: filling.head.next, to }, onRecord, writer.page)
  await writer.end()
  filling.head = { ...filling.head, next: to }
}

const PAGE_RECORDS = 10_000

/**
 * Writes pages while the next ones are read and folded, so that broker, Redis and this process work at once; one page
 * waits at most.
 */
function openPageWriter(write: () => Promise<unknown>): { page(): Promise<void>; end(): Promise<unknown> } {
  let writing: Promise<unknown> = Promise.resolve()
  return {
    async page() {
      await writing
      writing = write()
      // Its failure rejects at the next await of it.
      writing.catch(() => undefined)
    },
    end: () => writing,
  }
}

/**
 * Writes what a filling holds so far. The generation has no readers yet; the counter that named it is
 * the guard, so that a rebuild that another one has overtaken stops.
 */
async function write({ redis, prefix }: RebuilderOptions, filling: Filling): Promise<void> {
  const { partition, head, batch } = filling
  filling.head = headAfter(head, batch, head)
  filling.batch = emptyBatch()
  const writes = writesOf({ partition, generation: head.generation, prefix }, batch)
  if (writes.length === 0) return
  const generation = String(head.generation)
  const guard = generationsKey(partition, prefix)
  await writeGuarded(redis, { guard, expected: generation, value: generation, writes })
}
