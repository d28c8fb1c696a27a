/**
 * Reads what a topic recorded between two positions, for streams that resume and for replays.
 *
 * Reads without a group, committed records only. Records of all partitions come in the order of their timestamps
 * and, within a partition, of the log, so the same range is read alike each time. A queue per partition holds one fetch at most, and
 * nothing is read ahead of the consumer. First and last offsets are cached for a second: most positions are checked without a
 * request, and a log that has moved on by then fails the reading.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { isOutOfRange, type LogRecord, openRangeReader, type RangeReader } from '#infra/kafka/range-reader.ts'
import { nextTurn } from '#infra/runtime/turns.ts'
import { topics } from '#schemas/topics.ts'
import type { FeedTopic } from './feed-topics.ts'
import { decodeChange, HELD_MAX } from './log-follower.ts'
import { type LogPosition, readFrom } from './log-position.ts'
import type { FeedMetrics } from './metrics.ts'
import { type AssembledBatch, type ChangeRecord, openRefreshAssembler } from './refresh-assembler.ts'

export interface LogReader {
  /** Whether all that follows a position can be read; `unknown` when the position is not of this log. */
  check(position: LogPosition): Promise<'kept' | 'expired' | 'unknown'>
  /** The changes after a position and before another, as whole refreshes where they are whole. */
  read(from: LogPosition, to: LogPosition, signal: AbortSignal): AsyncGenerator<AssembledBatch, void, void>
  /** The records of a range that can be read, as they were recorded, some thousands at a time. */
  records(range: OffsetRange, signal: AbortSignal): AsyncGenerator<ChangeRecord[], void, void>
  /** The offsets of the log's end at a time, and now. */
  since(timestamp: number): Promise<OffsetRange>
  close(): Promise<void>
}

/** By partition: the first offset, and the one after the last. */
interface OffsetRange {
  from: readonly number[]
  to: readonly number[]
}

/** Of a partition, packed: a fetch brings one batch at least, of a refresh of a whole provider. Of 1 MiB a reading took 200 MB of heap. */
const FETCH_BYTES = 2 ** 15
/** Of a replay: an event has what these hold of one provider and moment. */
const RECORDS_AT_ONCE = 5_000
/** Fetches that bring nothing although more must be there. */
const EMPTY_FETCHES_MAX = 100
const FETCH_WAIT_MS = 100
/** Short, since a client waits for the answer. */
const CONNECT_LIMIT_MS = 3_000
/** A lost leader is replaced within this time in most cases. */
const FETCH_LIMIT_MS = 10_000
const BOUNDS_KEPT_MS = 1_000
/** A queue holds some ten thousand, all of which were read before others had their turn: live streams came a second late. */
const RECORDS_IN_A_TURN = 1_000

/** Opens a reader of a topic, with a connection of its own from when it is first used. */
export function openLogReader(kafka: KafkaConnection, topic: FeedTopic, metrics: FeedMetrics): LogReader {
  const name = kafka.topicName(topic.key)
  const shared = openSharedReader(() =>
    openRangeReader(kafka, [name], { connectLimitMs: CONNECT_LIMIT_MS, fetchBytes: FETCH_BYTES }),
  )
  const partitions = Array.from({ length: topics[topic.key].partitions }, (_, partition) => partition)
  const log = { shared, name, partitions }
  const bounds = openBounds(log)
  const decoded = (range: OffsetRange, signal: AbortSignal) =>
    decodedOf({ ...log, kafka, topic, metrics, signal }, range)
  return {
    async check(position) {
      const arrivedAt = performance.now()
      const isBeyond = ({ ends }: Bounds) => position.next.some((offset, partition) => offset > (ends[partition] ?? 0))
      let known = await bounds.ask(arrivedAt - BOUNDS_KEPT_MS)
      // What a client received since the end was last read lies beyond it.
      if (isBeyond(known)) known = await bounds.ask(arrivedAt)
      if (isBeyond(known)) return 'unknown'
      return readFrom(position).some((offset, partition) => offset < (known.starts[partition] ?? 0))
        ? 'expired'
        : 'kept'
    },
    since: timestamp =>
      shared.use(async reader => {
        const ask = (of: (partition: number) => Promise<number>) => Promise.all(partitions.map(of))
        const from = await ask(partition => reader.atTime(name, partition, timestamp))
        return { from, to: await ask(partition => reader.stableEnd(name, partition)) }
      }, CONNECT_LIMIT_MS),
    async *read(from, to, signal) {
      const limits = { partitions: partitions.length, waitMs: Number.POSITIVE_INFINITY, changesMax: HELD_MAX }
      const assembler = openRefreshAssembler(limits, from, to)
      try {
        for await (const { partition, records } of decoded({ from: readFrom(from), to: to.next }, signal)) {
          for (const { offset, change } of records) {
            if (!change) {
              assembler.skip(partition, offset)
              continue
            }
            // Not `yield*`: it would wait at every record, also where nothing leaves.
            for (const batch of assembler.add(change, 0)) yield batch
          }
          yield* assembler.release(0)
        }
      } catch (error) {
        if (isOutOfRange(error)) bounds.forget()
        throw error
      }
      yield* assembler.drain()
    },
    async *records(range, signal) {
      let some: ChangeRecord[] = []
      for await (const { records } of decoded(range, signal)) {
        for (const { change } of records) if (change) some.push(change)
        if (some.length < RECORDS_AT_ONCE) continue
        yield some
        some = []
      }
      yield some
    },
    close: shared.close,
  }
}

/** The partitions of a topic by its name, and what reads them. */
interface LogPartitions {
  shared: SharedReader
  name: string
  partitions: readonly number[]
}

interface Source extends LogPartitions {
  kafka: KafkaConnection
  topic: FeedTopic
  metrics: FeedMetrics
  signal: AbortSignal
}

/** The records of a range, as they were recorded; others have their turn in between. */
async function* decodedOf({ kafka, topic, metrics, ...source }: Source, { from, to }: OffsetRange) {
  let taken = 0
  for await (const { partition, records } of runsOf(source, from, to)) {
    for (let at = 0; at < records.length; at += RECORDS_IN_A_TURN) {
      const part = records
        .slice(at, at + RECORDS_IN_A_TURN)
        .map(record => ({ offset: record.offset, change: decodeChange(kafka, topic, record, metrics) }))
      yield { partition, records: part }
      taken += part.length
      if (taken < RECORDS_IN_A_TURN) continue
      await nextTurn()
      taken = 0
    }
  }
}

/** First offsets and stable ends by partition. */
interface Bounds {
  starts: readonly number[]
  ends: readonly number[]
  askedAt: number
}

/** The log's bounds, read by one request at a time, which concurrent callers share. */
function openBounds({ shared, name, partitions }: LogPartitions) {
  let known: Bounds | undefined
  let asking: Promise<Bounds> | undefined
  async function request(): Promise<Bounds> {
    const askedAt = performance.now()
    const [starts, ends] = await shared.use(
      reader =>
        Promise.all([
          Promise.all(partitions.map(partition => reader.start(name, partition))),
          Promise.all(partitions.map(partition => reader.stableEnd(name, partition))),
        ]),
      CONNECT_LIMIT_MS,
    )
    known = { starts, ends, askedAt }
    return known
  }
  return {
    /** The bounds as of a time or later. */
    async ask(since: number): Promise<Bounds> {
      for (;;) {
        if (known && known.askedAt >= since) return known
        asking ??= request().finally(() => {
          asking = undefined
        })
        await asking
      }
    },
    forget() {
      known = undefined
    },
  }
}

/** The records of all partitions from offset to offset, merged by their timestamps, in runs of one partition. */
async function* runsOf(
  { shared, name, partitions, signal }: LogPartitions & Pick<Source, 'signal'>,
  from: readonly number[],
  to: readonly number[],
): AsyncGenerator<{ partition: number; records: LogRecord[] }, void, void> {
  const next = [...from]
  const queues: LogRecord[][] = partitions.map(() => [])
  const at = partitions.map(() => 0)
  const head = (partition: number) => queues[partition]?.[at[partition] ?? 0]
  const stampOf = (partition: number) => head(partition)?.timestamp ?? Number.POSITIVE_INFINITY
  for (;;) {
    signal.throwIfAborted()
    const wanted = partitions.filter(one => !head(one) && (next[one] ?? 0) < (to[one] ?? 0))
    if (wanted.length > 0) await fill(wanted)
    const [partition, other] = partitions.filter(head).sort((a, b) => stampOf(a) - stampOf(b) || a - b)
    if (partition === undefined) return
    const queue = queues[partition] as LogRecord[]
    const begin = at[partition] as number
    // The partition of the smallest timestamp goes on until another one has a smaller; of equal ones the first partition goes on.
    const until = other === undefined ? Number.POSITIVE_INFINITY : stampOf(other)
    const isFirst = other === undefined || partition < other
    let end = begin + 1
    for (let stamp = queue[end]?.timestamp; stamp !== undefined; stamp = queue[++end]?.timestamp) {
      if (stamp > until || (stamp === until && !isFirst)) break
    }
    at[partition] = end
    yield { partition, records: queue.slice(begin, end) }
  }

  async function fill(wanted: readonly number[]): Promise<void> {
    for (let tries = 0; ; tries++) {
      const lacking = wanted.filter(one => !head(one) && (next[one] ?? 0) < (to[one] ?? 0))
      if (lacking.length === 0) return
      if (tries > EMPTY_FETCHES_MAX) throw new Error('the log does not bring what it holds')
      signal.throwIfAborted()
      const offsets = new Map(lacking.map(one => [one, next[one] ?? 0]))
      for (const { partition, records } of await shared.use(
        reader => reader.fetch(name, offsets, FETCH_WAIT_MS),
        FETCH_LIMIT_MS,
      )) {
        queues[partition] = records.filter(({ offset }) => offset < (to[partition] ?? 0))
        at[partition] = 0
        next[partition] = offsets.get(partition) ?? 0
      }
    }
  }
}

/**
 * One connection to the log for all streams that resume from a topic's past in this process; a replay has one of its own. States: closed ->
 * open (at the first use) -> dropped (after a failure that the reader does not recover from) -> open. A use that fails with a dropped
 * reader is retried with the next one. Invariant: at most one reader is open or being opened, and every use ends within its limit.
 */
interface SharedReader {
  /** Runs work with the reader; retries with another one while that fails, for `limitMs`. */
  use<T>(work: (reader: RangeReader) => Promise<T>, limitMs: number): Promise<T>
  close(): Promise<void>
}

const AGAIN_MS = 100

/** Shares what `open` opens; opens nothing until it is used. */
function openSharedReader(open: () => Promise<RangeReader>): SharedReader {
  let current: Promise<RangeReader> | undefined
  let isClosed = false
  const drop = async (failed: Promise<RangeReader>): Promise<void> => {
    if (current === failed) current = undefined
    await failed.then(reader => reader.close()).catch(() => undefined)
  }
  return {
    async use(work, limitMs) {
      const limit = performance.now() + limitMs
      for (;;) {
        if (isClosed) throw new Error('the reader of the log is closed')
        current ??= open()
        const used = current
        try {
          return await work(await used)
        } catch (error) {
          if (isOutOfRange(error)) throw error
          // The reader finds new leaders by itself.
          if ((error as { retriable?: boolean }).retriable !== true && current === used) void drop(used)
          if (performance.now() > limit) throw error
          await delay(AGAIN_MS)
        }
      }
    },
    async close() {
      isClosed = true
      if (current !== undefined) await drop(current)
    },
  }
}
