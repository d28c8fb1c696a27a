/**
 * Reads what a topic recorded between two positions, for streams that resume and for replays.
 *
 * Reads without a group, committed records only. Records of all partitions come in the order of their timestamps
 * and, within a partition, of the log, so the same range is read alike each time. A queue per partition holds one fetch at most, and
 * nothing is read ahead of the consumer. One connection serves all streams of a topic that resume in this process; a replay has one of
 * its own.
 */
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { isOutOfRange, type LogRecord, openRangeReader } from '#infra/kafka/range-reader.ts'
import { coalesceAlike } from '#infra/runtime/async/coalesce.ts'
import { retryFor } from '#infra/runtime/async/retry.ts'
import { nextTurn } from '#infra/runtime/turns.ts'
import { topics } from '#schemas/topics.ts'
import { type ChangeRecord, decodeChange, type FeedTopic } from './feed-topics.ts'
import { type LogPosition, readFrom } from './log-position.ts'
import type { FeedMetrics } from './metrics.ts'
import { type AssembledBatch, HELD_MAX, openRefreshAssembler } from './refresh-assembler.ts'

export type LogReader = Awaited<ReturnType<typeof openLogReader>>

/** By partition: the first offset, and the one after the last. */
interface OffsetRange {
  from: readonly number[]
  to: readonly number[]
}

/** Of a partition, packed: a fetch brings one batch at least, of a refresh of a whole provider. Of 1 MiB a reading took 200 MB of heap. */
const FETCH_BYTES = 2 ** 15
/** Of a replay: an event has what these hold of one provider and moment. */
const RECORDS_AT_ONCE = 5_000
/** Fetches one after the other that leave a partition empty although more must be there. */
const EMPTY_FETCHES_MAX = 100
const FETCH_WAIT_MS = 100
/** Short, since a client waits for the answer. */
const CONNECT_LIMIT_MS = 3_000
/** A lost leader is replaced within this time in most cases. */
const FETCH_LIMIT_MS = 10_000
const FETCH_AGAIN_MS = 100
/** A queue holds some ten thousand, all of which were read before others had their turn: live streams came a second late. */
const RECORDS_IN_A_TURN = 1_000

/** Opens a reader of a topic, with a connection of its own. */
export async function openLogReader(kafka: KafkaConnection, topic: FeedTopic, metrics: FeedMetrics) {
  const name = kafka.topicName(topic.key)
  const reader = await openRangeReader(kafka, [name], { connectLimitMs: CONNECT_LIMIT_MS, fetchBytes: FETCH_BYTES })
  const partitions = Array.from({ length: topics[topic.key].partitions }, (_, partition) => partition)
  const ofEach = (offsetOf: (partition: number) => Promise<number>) => Promise.all(partitions.map(offsetOf))
  const starts = () => ofEach(partition => reader.start(name, partition))
  const ends = () => ofEach(partition => reader.stableEnd(name, partition))
  const readBounds = coalesceAlike(() => Promise.all([starts(), ends()]))
  const fetch = (next: Map<number, number>, signal: AbortSignal) =>
    retryFor(FETCH_LIMIT_MS, FETCH_AGAIN_MS, () => reader.fetch(name, next, FETCH_WAIT_MS), {
      signal,
      shouldRetry: ({ error }) => !isOutOfRange(error),
    })
  /** The records of a range; others have their turn in between. */
  async function* decoded({ from, to }: OffsetRange, signal: AbortSignal) {
    let inThisTurn = 0
    for await (const { partition, records } of mergedRuns(fetch, from, to, signal)) {
      const changes = records.map(record => ({
        offset: record.offset,
        change: decodeChange(kafka, topic, record, metrics),
      }))
      yield { partition, records: changes }
      inThisTurn += records.length
      if (inThisTurn < RECORDS_IN_A_TURN) continue
      await nextTurn()
      inThisTurn = 0
    }
  }
  return {
    /** Whether all that follows a position can be read; `unknown` when the position is not of this log. */
    async check(position: LogPosition): Promise<'kept' | 'expired' | 'unknown'> {
      const [starts, ends] = await readBounds()
      if (position.next.some((offset, partition) => offset > (ends[partition] ?? 0))) return 'unknown'
      return readFrom(position).some((offset, partition) => offset < (starts[partition] ?? 0)) ? 'expired' : 'kept'
    },
    /** The offsets of the log's end at a time, and now. */
    since: async (timestamp: number): Promise<OffsetRange> => ({
      from: await ofEach(partition => reader.atTime(name, partition, timestamp)),
      to: await ends(),
    }),
    /** The changes after a position and before another, as whole refreshes where they are whole. */
    async *read(from: LogPosition, to: LogPosition, signal: AbortSignal): AsyncGenerator<AssembledBatch, void, void> {
      const limits = { partitions: partitions.length, waitMs: Number.POSITIVE_INFINITY, changesMax: HELD_MAX }
      const assembler = openRefreshAssembler(limits, from, to)
      for await (const { partition, records } of decoded({ from: readFrom(from), to: to.next }, signal)) {
        for (const { offset, change } of records) {
          // Not `yield*`: it would wait at every record, also where nothing leaves.
          if (change) for (const batch of assembler.add(change, 0)) yield batch
          else assembler.skip(partition, offset)
        }
        yield* assembler.release(0)
      }
      yield* assembler.drain()
    },
    /** The records of a range that can be read, as they were recorded, some thousands at a time. */
    async *records(range: OffsetRange, signal: AbortSignal): AsyncGenerator<ChangeRecord[], void, void> {
      let some: ChangeRecord[] = []
      for await (const { records } of decoded(range, signal)) {
        for (const { change } of records) if (change) some.push(change)
        if (some.length < RECORDS_AT_ONCE) continue
        yield some
        some = []
      }
      yield some
    },
    close: () => reader.close(),
  }
}

/** The records of all partitions from offset to offset, merged by their timestamps, in runs of one partition. */
async function* mergedRuns(
  fetch: (next: Map<number, number>, signal: AbortSignal) => Promise<{ partition: number; records: LogRecord[] }[]>,
  from: readonly number[],
  to: readonly number[],
  signal: AbortSignal,
): AsyncGenerator<{ partition: number; records: LogRecord[] }, void, void> {
  const next = [...from]
  const queues = from.map((): LogRecord[] => [])
  const at = from.map(() => 0)
  const partitions = [...from.keys()]
  const stampOf = (partition: number) => queues[partition]?.[at[partition] ?? 0]?.timestamp
  for (let fetches = 0; ; ) {
    signal.throwIfAborted()
    const lacking = partitions.filter(one => stampOf(one) === undefined && (next[one] ?? 0) < (to[one] ?? 0))
    if (lacking.length > 0) {
      if (++fetches > EMPTY_FETCHES_MAX) throw new Error('the log does not bring what it holds')
      const offsets = new Map(lacking.map(one => [one, next[one] ?? 0]))
      for (const { partition, records } of await fetch(offsets, signal)) {
        queues[partition] = records.filter(({ offset }) => offset < (to[partition] ?? 0))
        at[partition] = 0
        next[partition] = offsets.get(partition) ?? 0
      }
      continue
    }
    fetches = 0
    const heads = partitions.flatMap(partition => {
      const stamp = stampOf(partition)
      return stamp === undefined ? [] : [{ partition, stamp }]
    })
    const [first, other] = heads.sort((a, b) => a.stamp - b.stamp || a.partition - b.partition)
    if (first === undefined) return
    const { partition } = first
    const begin = at[partition] ?? 0
    const queue = queues[partition] as LogRecord[]
    // The partition of the smallest timestamp goes on until another one has a smaller; of equal ones the first partition goes on.
    const until = other?.stamp ?? Number.POSITIVE_INFINITY
    const isFirst = other === undefined || partition < other.partition
    let end = begin + 1
    for (let stamp = queue[end]?.timestamp; stamp !== undefined; stamp = queue[++end]?.timestamp) {
      if (end - begin === RECORDS_IN_A_TURN || stamp > until || (stamp === until && !isFirst)) break
    }
    at[partition] = end
    yield { partition, records: queue.slice(begin, end) }
  }
}
