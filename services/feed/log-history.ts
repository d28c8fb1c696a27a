/**
 * Reads what the log recorded between two places, for streams that resume and for replays.
 *
 * Reads market.book-changes without a group, committed records only. Invariant: records of all partitions come in the
 * order of their stamps and, within a partition, of the log, so the same range is told alike each time; a queue
 * per partition holds one fetch at most, nothing is read ahead of who listens, and few read at a time.
 */
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { type LogRecord, openRangeReader, type RangeReader } from '#infra/kafka/range-reader.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { decodeChange, HELD_MAX } from './change-reader.ts'
import type { FeedMetrics } from './feed-metrics.ts'
import { type LogPosition, readFrom } from './log-position.ts'
import { openRefreshTeller, type ToldBatch } from './refresh-teller.ts'

/** The log's past. */
export interface LogHistory {
  /** Whether all that follows a position can be told; `unknown` when it is no place in this log. */
  judge(position: LogPosition): Promise<'kept' | 'expired' | 'unknown'>
  /** The changes after a position and before another, as whole refreshes where they are whole. */
  tell(from: LogPosition, to: LogPosition, signal: AbortSignal): AsyncGenerator<ToldBatch, void, void>
  /** The positions at which the log stood at a time, and stands now. */
  since(timestamp: number): Promise<{ from: LogPosition; to: LogPosition }>
}

const PARTITIONS = Array.from({ length: ITEM_PARTITIONS }, (_, partition) => partition)
const READERS_MAX = 4
const READER_LIMIT_MS = 30_000
/** Fetches that bring nothing although more must be there. */
const EMPTY_FETCHES_MAX = 100
const FETCH_WAIT_MS = 100
/** A client waits for the answer. */
const CONNECT_LIMIT_MS = 3_000

/** Opens the history of the topic. */
export function openLogHistory(kafka: KafkaConnection, metrics: FeedMetrics): LogHistory {
  const topic = kafka.topicName('bookChanges')
  const seats = openSeats(READERS_MAX)

  async function withReader<T>(work: (reader: RangeReader) => Promise<T>): Promise<T> {
    const reader = await openRangeReader(kafka, [topic], { patienceMs: CONNECT_LIMIT_MS })
    try {
      return await work(reader)
    } finally {
      await reader.close()
    }
  }
  return {
    judge: position =>
      withReader(async reader => {
        const from = readFrom(position)
        for (const partition of PARTITIONS) {
          const offset = from[partition] ?? 0
          if ((position.next[partition] ?? 0) > (await reader.stableEnd(topic, partition))) return 'unknown'
          if (offset < (await reader.start(topic, partition))) return 'expired'
        }
        return 'kept'
      }),
    since: timestamp =>
      withReader(async reader => {
        const ask = (of: (partition: number) => Promise<number>) => Promise.all(PARTITIONS.map(of))
        const from = await ask(partition => reader.atTime(topic, partition, timestamp))
        const to = await ask(partition => reader.stableEnd(topic, partition))
        return { from: { next: from, behind: new Map() }, to: { next: to, behind: new Map() } }
      }),
    async *tell(from, to, signal) {
      const leave = await seats.take()
      const reader = await openRangeReader(kafka, [topic], { patienceMs: CONNECT_LIMIT_MS }).catch(error => {
        leave()
        throw error
      })
      try {
        const limits = { partitions: ITEM_PARTITIONS, waitMs: Number.POSITIVE_INFINITY, changesMax: HELD_MAX }
        const teller = openRefreshTeller(limits, from, to)
        for await (const { partition, record } of recordsOf(reader, topic, readFrom(from), to.next, signal)) {
          const decoded = await decodeChange(kafka, { ...record, partition }, metrics)
          if (decoded) yield* teller.take(decoded, 0)
          else teller.skip(partition, record.offset)
          if (decoded?.event === 'BookChanged' && decoded.value.refresh_id === null) yield* teller.release(0)
        }
        yield* teller.drain()
      } finally {
        leave()
        await reader.close()
      }
    },
  }
}

/** The records of all partitions from offset to offset, merged by their stamps. */
async function* recordsOf(
  reader: RangeReader,
  topic: string,
  from: readonly number[],
  to: readonly number[],
  signal: AbortSignal,
): AsyncGenerator<{ partition: number; record: LogRecord }, void, void> {
  const next = [...from]
  const queues: LogRecord[][] = PARTITIONS.map(() => [])
  const at = PARTITIONS.map(() => 0)
  const head = (partition: number) => queues[partition]?.[at[partition] ?? 0]
  for (;;) {
    signal.throwIfAborted()
    const wanted = PARTITIONS.filter(one => !head(one) && (next[one] ?? 0) < (to[one] ?? 0))
    if (wanted.length > 0) await fill(wanted)
    const [partition] = PARTITIONS.filter(head).sort((a, b) => stampOf(a) - stampOf(b) || a - b)
    if (partition === undefined) return
    // The partition of the smallest stamp goes on for as long as no other has a smaller one.
    const others = PARTITIONS.filter(one => one !== partition && head(one))
    const until = Math.min(...others.map(stampOf))
    for (let record = head(partition); record; record = head(partition)) {
      yield { partition, record }
      at[partition] = (at[partition] ?? 0) + 1
      if ((head(partition)?.timestamp ?? Number.POSITIVE_INFINITY) >= until) break
    }
  }

  function stampOf(partition: number): number {
    return head(partition)?.timestamp ?? Number.POSITIVE_INFINITY
  }
  async function fill(wanted: readonly number[]): Promise<void> {
    for (let tries = 0; ; tries++) {
      const lacking = wanted.filter(one => !head(one) && (next[one] ?? 0) < (to[one] ?? 0))
      if (lacking.length === 0) return
      if (tries > EMPTY_FETCHES_MAX) throw new Error('the log does not bring what it holds')
      signal.throwIfAborted()
      const asked = new Map(lacking.map(one => [one, next[one] ?? 0]))
      for (const { partition, records } of await reader.fetch(topic, asked, FETCH_WAIT_MS)) {
        queues[partition] = records.filter(({ offset }) => offset < (to[partition] ?? 0))
        at[partition] = 0
        next[partition] = asked.get(partition) ?? 0
      }
    }
  }
}

/** So many at a time; who waits too long is refused. */
function openSeats(count: number) {
  let free = count
  const waiting: (() => void)[] = []
  const leave = (): void => {
    const next = waiting.shift()
    if (next) next()
    else free += 1
  }
  return {
    async take(): Promise<() => void> {
      if (free > 0) {
        free -= 1
        return leave
      }
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      waiting.push(resolve)
      const limit = setTimeout(() => {
        const place = waiting.indexOf(resolve)
        if (place >= 0) waiting.splice(place, 1)
        reject(new Error('too many streams read the past at the moment'))
      }, READER_LIMIT_MS)
      await promise.finally(() => clearTimeout(limit))
      return leave
    },
  }
}
