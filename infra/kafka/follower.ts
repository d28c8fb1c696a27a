/**
 * Follows all partitions of a topic without a group: every instance reads for itself.
 *
 * For the feed gateway and for compacted tables kept in memory. Reads committed records only, in
 * order per partition. Invariant: `onRecords` is awaited before the next fetch, so memory holds one
 * fetch at most; errors of the broker are retried for ten minutes and then reject `closed`, refusals for ten seconds (refusal.ts).
 */
import { setTimeout as delay } from 'node:timers/promises'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { BROKER_RETRY_LIMIT_MS, type KafkaConnection } from './connection.ts'
import { openRangeReader, type RangeReader } from './range-reader.ts'
import { openRefusalLimit } from './refusal.ts'

/** A record with its topic, partition and offset. */
export interface FollowedRecord {
  topic: TopicKey
  partition: number
  offset: number
  key: string | null
  value: Buffer | null
  /** The broker's or the producer's stamp in milliseconds. */
  timestamp: number
}

/** How a topic is followed. */
interface FollowOptions {
  from: 'start' | 'end' | ((partition: number) => number)
  onRecords(records: FollowedRecord[]): void | Promise<void>
  signal: AbortSignal
  /** How long a fetch may wait for records. */
  waitMs?: number
}

/** A topic being followed. */
interface Following {
  /** By partition: where reading began. */
  readonly from: readonly number[]
  /** Resolves when all that was in the log at the beginning has been delivered. */
  caughtUp: Promise<void>
  /** Resolves after the signal, rejects when brokers are away beyond the retry limit or refuse this reader. */
  closed: Promise<void>
  /** Why records may be late: the last fetches failed. Undefined while all is well. */
  trouble(): string | undefined
}

const FETCH_WAIT_MS = 200
/** Short: the topic's other partitions wait as well. */
const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 500

/** Begins to follow a topic. Resolves when the positions to start from are known. */
export async function follow(kafka: KafkaConnection, topic: TopicKey, options: FollowOptions): Promise<Following> {
  const name = kafka.topicName(topic)
  const reader = await openRangeReader(kafka, [name])
  const partitions = Array.from({ length: topics[topic].partitions }, (_, partition) => partition)
  const ends = new Map<number, number>()
  const next = new Map<number, number>()
  for (const partition of partitions) {
    const end = await reader.stableEnd(name, partition)
    ends.set(partition, end)
    next.set(partition, await firstOffset(reader, name, partition, end, options.from))
  }
  const from = partitions.map(partition => next.get(partition) ?? 0)
  const caughtUp = Promise.withResolvers<void>()
  caughtUp.promise.catch(() => undefined)
  const isCaughtUp = (): boolean =>
    partitions.every(partition => (next.get(partition) ?? 0) >= (ends.get(partition) ?? 0))
  let trouble: string | undefined
  const closed = run(reader, name, topic, next, options, problem => {
    trouble = problem
    if (isCaughtUp()) caughtUp.resolve()
  }).catch(error => {
    caughtUp.reject(error)
    throw error
  })
  return { from, caughtUp: caughtUp.promise, closed, trouble: () => trouble }
}

async function firstOffset(
  reader: RangeReader,
  name: string,
  partition: number,
  end: number,
  from: FollowOptions['from'],
): Promise<number> {
  if (from === 'end') return end
  const start = await reader.start(name, partition)
  return from === 'start' ? start : Math.max(start, from(partition))
}

async function run(
  reader: RangeReader,
  name: string,
  topic: TopicKey,
  next: Map<number, number>,
  options: FollowOptions,
  afterFetch: (trouble: string | undefined) => void,
): Promise<void> {
  const waitMs = options.waitMs ?? FETCH_WAIT_MS
  let failures = 0
  let answeredAt = performance.now()
  const refusals = openRefusalLimit(() => performance.now())
  try {
    afterFetch(undefined)
    while (!options.signal.aborted) {
      let fetched: Awaited<ReturnType<RangeReader['fetch']>>
      try {
        fetched = await reader.fetch(name, next, waitMs)
        failures = 0
        answeredAt = performance.now()
        refusals.answered()
      } catch (error) {
        if (options.signal.aborted) return
        if (refusals.isReached(error) || performance.now() - answeredAt > BROKER_RETRY_LIMIT_MS) throw error
        failures += 1
        afterFetch(error instanceof Error ? error.message : String(error))
        await delay(Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * failures))
        continue
      }
      const records = fetched.flatMap(({ records: found }) =>
        found.map(record => ({ topic, ...record, key: record.key?.toString() ?? null })),
      )
      if (records.length > 0) await options.onRecords(records)
      afterFetch(undefined)
    }
  } finally {
    await reader.close()
  }
}
