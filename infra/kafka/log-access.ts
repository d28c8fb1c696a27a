/**
 * Access to the log for tools and comparisons of views: the connection, a reader of some topics, and positions in them.
 *
 * Reads the brokers only. Invariant: ends are stable ends, so what a tool reads has been committed.
 */
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { connectKafka } from './connection.ts'
import { type OffsetRange, openRangeReader } from './range-reader.ts'

export type LogAccess = Awaited<ReturnType<typeof openLogAccess>>

/** A position in a topic: an offset of each partition, a time, or so many records before the end of each partition. */
export type TopicPosition = { offset: number } | { time: number } | { last: number }

/** Where a topic is read: its name with the namespace, and a range for each partition. */
export interface TopicRanges {
  topic: string
  ranges: Map<number, OffsetRange>
}

/** Short, since a person waits at the terminal. */
const CONNECT_LIMIT_MS = 5_000

/** A page of records is freed while it is young: larger pages cost replay a quarter of its time in the collector. */
const FETCH_BYTES = 512 * 1024

export async function openLogAccess(config: PlatformConfig, log: Log, keys: readonly TopicKey[]) {
  const kafka = connectKafka({ config, role: 'log-tools', log })
  const reader = await openRangeReader(kafka, keys.map(kafka.topicName), {
    connectLimitMs: CONNECT_LIMIT_MS,
    fetchBytes: FETCH_BYTES,
  })
  return { kafka, reader, close: () => reader.close() }
}

export async function withLogAccess<T>(
  config: PlatformConfig,
  log: Log,
  keys: readonly TopicKey[],
  work: (access: LogAccess) => Promise<T>,
): Promise<T> {
  const access = await openLogAccess(config, log, keys)
  try {
    return await work(access)
  } finally {
    await access.close()
  }
}

/** From a position to a position; without one from the start, or to the stable end of now. */
export async function rangesOf(
  { kafka, reader }: LogAccess,
  key: TopicKey,
  from: TopicPosition | undefined,
  to?: TopicPosition,
): Promise<TopicRanges> {
  const topic = kafka.topicName(key)
  const ranges = new Map<number, OffsetRange>()
  for (let partition = 0; partition < topics[key].partitions; partition++) {
    const [start, end] = [await reader.start(topic, partition), await reader.stableEnd(topic, partition)]
    const offsetOf = async (position: TopicPosition | undefined, otherwise: number): Promise<number> => {
      if (position === undefined) return otherwise
      if ('offset' in position) return position.offset
      return 'last' in position ? end - position.last : reader.atTime(topic, partition, position.time)
    }
    const within = (offset: number): number => Math.min(end, Math.max(start, offset))
    ranges.set(partition, { from: within(await offsetOf(from, start)), to: within(await offsetOf(to, end)) })
  }
  return { topic, ranges }
}

/** Offsets between the ends of ranges: records, and the markers of transactions. */
export const offsetsIn = ({ ranges }: TopicRanges): number =>
  [...ranges.values()].reduce((sum, { from, to }) => sum + Math.max(0, to - from), 0)
