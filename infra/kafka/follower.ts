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
import { isOutOfRange, type LogRecord, openRangeReader, type RangeReader } from './range-reader.ts'
import { openBackoff } from './refusal.ts'

interface FollowOptions {
  from: 'start' | 'end' | ((partition: number) => number)
  onRecords(records: LogRecord[]): void | Promise<void>
  signal: AbortSignal
  /** How long a fetch may wait for records. */
  waitMs?: number
  /** By them a topic is told from the one before it; left out where it is read for moments alone. */
  ids?: TopicIds | undefined
}

interface Following {
  /** By partition: where reading began. */
  readonly from: readonly number[]
  /** Resolves when all that was in the log at the beginning has been delivered. */
  caughtUp: Promise<void>
  /** Resolves after the signal; rejects when brokers are away beyond the retry limit or refuse this reader, or it is another topic. */
  closed: Promise<void>
  /** The offset of a partition up to which all was delivered. */
  position(partition: number): number
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
  const name = kafka.topicName(topic)
  const identity = await watchIdentity(topic, options.ids)
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
  const delivered = new Map(next)
  let trouble: string | undefined
  const closed = run({ reader, name, topic, identity }, next, options, problem => {
    trouble = problem
    if (problem === undefined) for (const [partition, offset] of next) delivered.set(partition, offset)
    if (isCaughtUp()) caughtUp.resolve()
  }).catch(error => {
    caughtUp.reject(error)
    throw error
  })
  const position = (partition: number): number => delivered.get(partition) ?? 0
  return { from, caughtUp: caughtUp.promise, closed, position, trouble: () => trouble }
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

/** Says that what was read of a topic does not hold. */
export const otherTopic = (topic: TopicKey): string =>
  `${topics[topic].name} was deleted, or deleted and created again: its next reader begins with it`

/** Whether a topic is still the one that it was at first. */
interface Identity {
  assertSame(): void
  /** The same after asking for the ids. */
  ask(): Promise<void>
  close(): void
}

async function watchIdentity(topic: TopicKey, ids: TopicIds | undefined): Promise<Identity> {
  let isOther = false
  const close = ids?.onChange([topic], () => {
    isOther = true
  })
  const assertSame = (): void => {
    if (isOther) throw new Refused(otherTopic(topic))
  }
  const ask = async (): Promise<void> => {
    await ids?.idOf(topic).catch(() => undefined)
    assertSame()
  }
  await ask()
  return { assertSame, ask, close: () => close?.() }
}

async function run(
  { reader, name, topic, identity }: { reader: RangeReader; name: string; topic: TopicKey; identity: Identity },
  next: Map<number, number>,
  options: FollowOptions,
  afterFetch: (trouble: string | undefined) => void,
): Promise<void> {
  const waitMs = options.waitMs ?? FETCH_WAIT_MS
  let answeredAt = performance.now()
  const backoff = openBackoff(() => performance.now(), PAUSES)
  try {
    afterFetch(undefined)
    while (!options.signal.aborted) {
      identity.assertSame()
      let fetched: Awaited<ReturnType<RangeReader['fetch']>>
      try {
        fetched = await reader.fetch(name, next, waitMs)
        answeredAt = performance.now()
        backoff.succeeded()
      } catch (error) {
        if (options.signal.aborted) return
        if (isOutOfRange(error)) await identity.ask()
        if (isOutOfRange(error) && performance.now() - answeredAt > OUT_OF_RANGE_LIMIT_MS)
          throw new Refused(
            `${topics[topic].name} does not hold what follows: its next reader begins with what is there`,
          )
        const pauseMs = backoff.failed(error)
        afterFetch(error instanceof Error ? error.message : String(error))
        await delay(pauseMs)
        continue
      }
      const records = fetched.flatMap(one => one.records)
      if (records.length > 0) await options.onRecords(records)
      afterFetch(undefined)
    }
  } finally {
    identity.close()
    await reader.close()
  }
}
