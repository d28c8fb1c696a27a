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
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { decodeKnown, decodeLearning } from '#infra/kafka/learning.ts'
import type { LogRecord, RangeReader } from '#infra/kafka/range-reader.ts'
import { writeGuarded } from '#infra/redis/guarded-write.ts'
import type { Redis } from '#infra/redis/redis.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { appliedAtOf, type BookRefreshStored } from '#schemas/events/book-state.ts'
import { PROVIDER_PARTITIONS, topics } from '#schemas/topics.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { emptyBatch, foldChange, foldMarker, foldRefreshed, foldRow, headAfter, type LiveBatch } from './step.ts'
import { generationsKey, type LiveHead } from './table.ts'
import { writesOf } from './writes.ts'

/** Builds partitions of the live table. */
export interface Rebuilder {
  /** Fills a new generation; resolves with its head, which the caller writes. */
  rebuild(partition: number): Promise<LiveHead>
  /** Brings a filled generation, which no head names yet, to the log's end of now. */
  catchUp(partition: number, head: LiveHead): Promise<LiveHead>
}

/** What a rebuilder works with. */
export interface RebuilderOptions {
  kafka: KafkaConnection
  reader: RangeReader
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
  const waiting = new Map<number, PromiseWithResolvers<LiveHead>>()
  let running = Promise.resolve()
  const pass = async (): Promise<void> => {
    const wanted = new Map(waiting)
    waiting.clear()
    try {
      for (const { partition, head } of await fillAll(options, [...wanted.keys()])) wanted.get(partition)?.resolve(head)
    } catch (error) {
      for (const { reject } of wanted.values()) reject(error)
    }
  }
  return {
    rebuild(partition) {
      const asked = waiting.get(partition) ?? Promise.withResolvers<LiveHead>()
      waiting.set(partition, asked)
      // The pass begins one turn of the event loop later, when all partitions of an assignment have asked.
      running = running.then(() => nextTurn()).then(pass)
      return asked.promise
    },
    async catchUp(partition, head) {
      const filling: Filling = { partition, head, batch: emptyBatch() }
      await readChanges(options, filling)
      return filling.head
    },
  }
}

async function fillAll(options: RebuilderOptions, partitions: readonly number[]): Promise<Filling[]> {
  const { kafka, reader, redis, prefix } = options
  const changes = kafka.topicName('bookChanges')
  const fillings = new Map<number, Filling>()
  for (const partition of partitions) {
    const generation = await redis.incr(generationsKey(partition, prefix))
    const next = await reader.stableEnd(changes, partition)
    fillings.set(partition, { partition, head: { generation, next, ask: {}, bid: {} }, batch: emptyBatch() })
  }
  if (partitions.length > 0) {
    for (let log = 0; log < topics.book.partitions; log++) await readChangelog(options, log, fillings)
  }
  for (const filling of fillings.values()) await readChanges(options, filling)
  return [...fillings.values()]
}

/** Reads one partition of the changelog into the partitions being filled. */
async function readChangelog(
  options: RebuilderOptions,
  log: number,
  fillings: ReadonlyMap<number, Filling>,
): Promise<void> {
  const { kafka, reader } = options
  const topic = kafka.topicName('book')
  const side: Side = log < PROVIDER_PARTITIONS ? 'ask' : 'bid'
  const range = { topic, partition: log, from: await reader.start(topic, log), to: await reader.end(topic, log) }
  const fold = async (records: readonly LogRecord[]): Promise<void> => {
    for (const { key, value } of records) {
      const [kind, provider = '', item = ''] = key?.toString().split('|') ?? []
      const filling = kind === 'row' ? fillings.get(partitionOfItem(Number(item))) : undefined
      if (kind !== 'refresh' && filling === undefined) continue
      const stored =
        value === null ? null : (decodeKnown(kafka.codec, value) ?? (await decodeLearning(kafka.codec, value))).value
      if (filling) foldRow(filling.batch, { side, provider, itemId: Number(item), stored })
      else if (stored) for (const { batch } of fillings.values()) foldStored(batch, side, provider, stored)
    }
  }
  await readPages(reader, range, fold, () => Promise.all([...fillings.values()].map(each => write(options, each))))
}

/** The last refresh may be quarantined: readers are shown the time of the one before it, which changed the rows. */
function foldStored(batch: LiveBatch, side: Side, provider: string, stored: BookRefreshStored): void {
  const appliedAt = appliedAtOf(stored)
  if (appliedAt !== null) foldRefreshed(batch, side, provider, appliedAt)
}

/** Applies what was written to market.book-changes since the filling began. */
async function readChanges(options: RebuilderOptions, filling: Filling): Promise<void> {
  const { kafka, reader } = options
  const topic = kafka.topicName('bookChanges')
  const to = await reader.end(topic, filling.partition)
  const fold = async (records: readonly LogRecord[]): Promise<void> => {
    for (const { value } of records) {
      if (value === null) continue
      const decoded = decodeKnown(kafka.codec, value) ?? (await decodeLearning(kafka.codec, value))
      if (decoded.event === 'BookChanged') foldChange(filling.batch, decoded.value)
      else if (decoded.event === 'RefreshMarked') foldMarker(filling.batch, decoded.value)
    }
  }
  const range = { topic, partition: filling.partition, from: filling.head.next, to }
  await readPages(reader, range, fold, () => write(options, filling))
  filling.head = { ...filling.head, next: to }
}

const PAGE_RECORDS = 10_000

/**
 * Reads a range page by page, at most {@link PAGE_RECORDS} records each. While a page is written the next one is read and
 * folded, so broker, Redis and this process work at once; one page waits at most.
 */
async function readPages(
  reader: RangeReader,
  range: Parameters<RangeReader['read']>[0],
  fold: (records: readonly LogRecord[]) => Promise<void>,
  write: () => Promise<unknown>,
): Promise<void> {
  let page: LogRecord[] = []
  let writing: Promise<unknown> = Promise.resolve()
  const takePage = async (): Promise<void> => {
    const records = page
    page = []
    for (let at = 0; at < records.length; at += PAGE_RECORDS) {
      await fold(records.slice(at, at + PAGE_RECORDS))
      await writing
      writing = write()
      // Its failure rejects at the next await of it.
      writing.catch(() => undefined)
    }
  }
  await reader.read(range, record => void page.push(record), takePage)
  await writing
}

/**
 * Writes what a filling holds so far. The generation has no readers yet; the counter that named it is
 * the guard, so that a rebuild that another one has overtaken stops.
 */
async function write({ redis, prefix }: RebuilderOptions, filling: Filling): Promise<void> {
  const { partition, head, batch } = filling
  filling.head = headAfter(head, batch, head.next)
  filling.batch = emptyBatch()
  const writes = writesOf({ partition, generation: head.generation, prefix }, batch)
  if (writes.length === 0) return
  const generation = String(head.generation)
  const guard = generationsKey(partition, prefix)
  await writeGuarded(redis, { guard, expected: generation, value: generation, writes })
}
