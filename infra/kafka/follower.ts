/**
 * Follows all partitions of a topic without a group: every instance reads for itself.
 *
 * For the feed gateway and for compacted tables kept in memory. Reads committed records only, in
 * order per partition. Invariant: `onRecords` is awaited before the next fetch, so memory holds one
 * fetch at most; errors of the broker are retried for ten minutes and then reject `closed`, refusals (refusal.ts) and offsets that
 * the log does not hold for ten seconds; a topic that was deleted or created again rejects it at once, since what was read is not of
 * what is there.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { Refused } from '../runtime/refused.ts'
import type { TopicIds } from '../runtime/role.ts'
import type { KafkaConnection } from './connection.ts'
import { isOutOfRange, type LogRecord, openRangeReader } from './range-reader.ts'
import { openBackoff } from './refusal.ts'

interface FollowOptions {
  from: 'start' | 'end' | ((partition: number) => number)
  onRecords(records: LogRecord[]): void | Promise<void>
  signal: AbortSignal
  /** All of the topic when left out. */
  partitions?: readonly number[]
  waitMs?: number
  fetchBytes?: number
  /** They distinguish a topic from the one before it; left out where it is read for moments alone. */
  ids?: TopicIds | undefined
}

interface Following {
  /** By followed partition: where reading began. */
  readonly from: readonly number[]
  /** Resolves when all that was in the log at the beginning has been delivered. */
  caughtUp: Promise<unknown>
  /** Resolves after the signal; rejects when brokers are away beyond the retry limit or refuse this reader, or it is another topic. */
  closed: Promise<void>
  /** The offset of a partition up to which all was delivered. */
  position(partition: number): number
  /** Resolves once a partition was delivered up to an offset, or reading has ended. */
  reached(partition: number, offset: number): Promise<void>
  /** Why records may be late: the last fetches failed. Undefined while all is well. */
  trouble(): string | undefined
}

const FETCH_WAIT_MS = 200
/** Short: the topic's other partitions wait as well. */
const PAUSES = { firstMs: 50, longestMs: 500 }
/** A broker that has just become the leader may show an earlier end for a moment. */
const OUT_OF_RANGE_LIMIT_MS = 10_000

/** Begins to follow a topic. Resolves when the positions to start from are known. */
export async function follow(kafka: KafkaConnection, topic: TopicKey, options: FollowOptions): Promise<Following> {
  const { ids, signal, from } = options
  const name = kafka.topicName(topic)
  let isOther = false
  const endWatch = ids?.onChange([topic], () => {
    isOther = true
  })
  await ids?.idOf(topic).catch(() => undefined)
  const reader = await openRangeReader(kafka, [name], options)
  const ends = new Map<number, number>()
  const next = new Map<number, number>()
  for (const partition of options.partitions ?? Array(topics[topic].partitions).keys()) {
    const end = await reader.stableEnd(name, partition)
    const start = from === 'end' ? end : await reader.start(name, partition)
    ends.set(partition, end)
    next.set(partition, typeof from === 'function' ? Math.max(start, from(partition)) : start)
  }
  const begin = [...next.values()]
  const { position, reached, advance, end } = openDelivered(next)
  const caughtUp = Promise.all([...ends].map(([partition, offset]) => reached(partition, offset)))
  caughtUp.catch(() => undefined)
  let trouble: string | undefined
  const assertSame = (): void => {
    if (!isOther) return
    throw new Refused(`${topics[topic].name} was deleted, or deleted and created again: its next reader begins with it`)
  }

  let answeredAt = performance.now()
  const backoff = openBackoff(() => performance.now(), PAUSES)
  const pauseAfter = async (error: unknown): Promise<undefined> => {
    if (signal.aborted) return
    if (isOutOfRange(error)) {
      await ids?.idOf(topic).catch(() => undefined)
      assertSame()
      if (performance.now() - answeredAt > OUT_OF_RANGE_LIMIT_MS)
        throw new Refused(`${topics[topic].name} does not hold what follows: its next reader begins with what is there`)
    }
    const pauseMs = backoff.failed(error)
    trouble = error instanceof Error ? error.message : String(error)
    await delay(pauseMs)
  }
  const run = async (): Promise<void> => {
    while (!signal.aborted) {
      assertSame()
      const fetched = await reader.fetch(name, next, options.waitMs ?? FETCH_WAIT_MS).catch(pauseAfter)
      if (fetched === undefined) continue
      answeredAt = performance.now()
      backoff.succeeded()
      const records = fetched.flatMap(one => one.records)
      if (records.length > 0) await options.onRecords(records)
      trouble = undefined
      advance()
    }
  }
  const closed = run()
    .then(
      () => end(),
      error => {
        end(error)
        throw error
      },
    )
    .finally(() => {
      endWatch?.()
      return reader.close()
    })
  return { from: begin, caughtUp, closed, position, reached, trouble: () => trouble }
}

/** The offsets up to which all was delivered, and who waits for one. */
function openDelivered(next: ReadonlyMap<number, number>) {
  let delivered = new Map(next)
  const position = (partition: number): number => delivered.get(partition) ?? 0
  const waiting = new Set<{ partition: number; offset: number } & PromiseWithResolvers<void>>()
  let isOver = false
  const release = (): void => {
    for (const waiter of waiting) {
      if (!isOver && position(waiter.partition) < waiter.offset) continue
      waiting.delete(waiter)
      waiter.resolve()
    }
  }
  return {
    position,
    reached(partition: number, offset: number): Promise<void> {
      const waiter = { partition, offset, ...Promise.withResolvers<void>() }
      waiting.add(waiter)
      release()
      return waiter.promise
    },
    advance(): void {
      delivered = new Map(next)
      release()
    },
    end(failure?: unknown): void {
      if (failure !== undefined) for (const waiter of waiting) waiter.reject(failure)
      isOver = true
      release()
    },
  }
}
