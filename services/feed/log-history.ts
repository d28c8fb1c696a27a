/**
 * Reads what the log recorded between two positions, for streams that resume and for replays.
 *
 * Reads market.book-changes without a group, committed records only, through one reader for all. Records of all partitions come in
 * the order of their timestamps and, within a partition, of the log, so the same range is read alike each time. A queue per
 * partition holds one fetch at most, and nothing is read ahead of the consumer. First and last offsets are cached for a second:
 * most positions are judged without a request, and a log that has moved on by then fails the reading.
 */
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { type LogRecord, openRangeReader } from '#infra/kafka/range-reader.ts'
import { nextTurn } from '#infra/runtime/turns.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { decodeChange, HELD_MAX } from './change-reader.ts'
import type { FeedMetrics } from './feed-metrics.ts'
import { type LogPosition, readFrom } from './log-position.ts'
import { type AssembledBatch, openRefreshAssembler } from './refresh-assembler.ts'
import { openSharedReader, type SharedReader } from './shared-reader.ts'

/** The log's past. */
export interface LogHistory {
  /** Whether all that follows a position can be read; `unknown` when the position is not of this log. */
  judge(position: LogPosition): Promise<'kept' | 'expired' | 'unknown'>
  /** Makes the next judgement ask the log: a reading has found that it moved on. */
  forget(): void
  /** The changes after a position and before another, as whole refreshes where they are whole. */
  read(from: LogPosition, to: LogPosition, signal: AbortSignal): AsyncGenerator<AssembledBatch, void, void>
  /** The positions of the log's end at a time, and now. */
  since(timestamp: number): Promise<{ from: LogPosition; to: LogPosition }>
  close(): Promise<void>
}

const PARTITIONS = Array.from({ length: ITEM_PARTITIONS }, (_, partition) => partition)
/** Of a partition; a fetch brings twice as much at most. */
const FETCH_BYTES = 2 ** 20
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

/** Opens the history of the topic; connects when it is first asked. */
export function openLogHistory(kafka: KafkaConnection, metrics: FeedMetrics): LogHistory {
  const topic = kafka.topicName('bookChanges')
  const shared = openSharedReader(() =>
    openRangeReader(kafka, [topic], { connectLimitMs: CONNECT_LIMIT_MS, fetchBytes: FETCH_BYTES }),
  )
  const bounds = openBounds(shared, topic)
  return {
    async judge(position) {
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
    forget: bounds.forget,
    since: timestamp =>
      shared.use(async reader => {
        const ask = (of: (partition: number) => Promise<number>) => Promise.all(PARTITIONS.map(of))
        const from = await ask(partition => reader.atTime(topic, partition, timestamp))
        const to = await ask(partition => reader.stableEnd(topic, partition))
        return { from: { next: from, behind: new Map() }, to: { next: to, behind: new Map() } }
      }, CONNECT_LIMIT_MS),
    async *read(from, to, signal) {
      const limits = { partitions: ITEM_PARTITIONS, waitMs: Number.POSITIVE_INFINITY, changesMax: HELD_MAX }
      const assembler = openRefreshAssembler(limits, from, to)
      let taken = 0
      for await (const { partition, records } of runsOf({ shared, topic, signal }, readFrom(from), to.next)) {
        for (const record of records) {
          if (++taken % RECORDS_IN_A_TURN === 0) await nextTurn()
          const decoding = decodeChange(kafka, record, metrics)
          const decoded = decoding instanceof Promise ? await decoding : decoding
          if (!decoded) {
            assembler.skip(partition, record.offset)
            continue
          }
          // Not `yield*`: it would wait at every record, also where nothing leaves.
          for (const batch of assembler.take(decoded, 0)) yield batch
          if (decoded.event === 'BookChanged' && decoded.value.refresh_id === null) yield* assembler.release(0)
        }
      }
      yield* assembler.drain()
    },
    close: shared.close,
  }
}

/** First offsets and stable ends by partition. */
interface Bounds {
  starts: readonly number[]
  ends: readonly number[]
  askedAt: number
}

/** The log's bounds, read by one request at a time, which concurrent callers share. */
function openBounds(shared: SharedReader, topic: string) {
  let known: Bounds | undefined
  let asking: Promise<Bounds> | undefined
  async function request(): Promise<Bounds> {
    const askedAt = performance.now()
    const [starts, ends] = await shared.use(
      reader =>
        Promise.all([
          Promise.all(PARTITIONS.map(partition => reader.start(topic, partition))),
          Promise.all(PARTITIONS.map(partition => reader.stableEnd(topic, partition))),
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
  { shared, topic, signal }: { shared: SharedReader; topic: string; signal: AbortSignal },
  from: readonly number[],
  to: readonly number[],
): AsyncGenerator<{ partition: number; records: LogRecord[] }, void, void> {
  const next = [...from]
  const queues: LogRecord[][] = PARTITIONS.map(() => [])
  const at = PARTITIONS.map(() => 0)
  const head = (partition: number) => queues[partition]?.[at[partition] ?? 0]
  const stampOf = (partition: number) => head(partition)?.timestamp ?? Number.POSITIVE_INFINITY
  for (;;) {
    signal.throwIfAborted()
    const wanted = PARTITIONS.filter(one => !head(one) && (next[one] ?? 0) < (to[one] ?? 0))
    if (wanted.length > 0) await fill(wanted)
    const [partition, other] = PARTITIONS.filter(head).sort((a, b) => stampOf(a) - stampOf(b) || a - b)
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
      const asked = new Map(lacking.map(one => [one, next[one] ?? 0]))
      for (const { partition, records } of await shared.use(
        reader => reader.fetch(topic, asked, FETCH_WAIT_MS),
        FETCH_LIMIT_MS,
      )) {
        queues[partition] = records.filter(({ offset }) => offset < (to[partition] ?? 0))
        at[partition] = 0
        next[partition] = asked.get(partition) ?? 0
      }
    }
  }
}
