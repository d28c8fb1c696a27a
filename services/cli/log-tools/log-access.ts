/**
 * What every tool on the log opens: the connection, a reader of the topics it names, and positions in them.
 *
 * Reads the brokers only. Invariant: ends are stable ends, so what a tool reads has been committed.
 */
import { type Codec, type Decoded, DecodeError } from '#infra/kafka/codec.ts'
import { connectKafka, type KafkaConnection } from '#infra/kafka/connection.ts'
import { decodeLearning } from '#infra/kafka/learning.ts'
import { openRangeReader, type RangeReader } from '#infra/kafka/range-reader.ts'
import type { OffsetRange } from '#infra/kafka/topic-scan.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { parseInstant } from '#schemas/values/instant.ts'
import { CommandFailure, exitCodes } from '../command-failure.ts'

/** Gives a command its settings. */
export type Connect = () => { config: PlatformConfig; log: Log }

/** An opened way to the log. */
export interface LogAccess {
  readonly kafka: KafkaConnection
  readonly reader: RangeReader
  close(): Promise<void>
}

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

/** Opens a way to some topics. */
export async function openLogAccess(
  config: PlatformConfig,
  log: Log,
  keys: readonly TopicKey[],
  role = 'log-tools',
): Promise<LogAccess> {
  const kafka = connectKafka({ config, role, log })
  const reader = await openRangeReader(kafka, keys.map(kafka.topicName), {
    connectLimitMs: CONNECT_LIMIT_MS,
    fetchBytes: FETCH_BYTES,
  })
  return { kafka, reader, close: () => reader.close() }
}

/** Decodes a record; undefined when it is no event of ours, which the roles skip too. */
export async function decodeUnlessPoison(codec: Codec, bytes: Buffer): Promise<Decoded | undefined> {
  try {
    return await decodeLearning(codec, bytes)
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error
    return undefined
  }
}

/** The topic of a name of the catalogue, or of its short name in code. */
export function topicOf(text: string): TopicKey {
  const entries = Object.entries(topics) as [TopicKey, { name: string }][]
  const found = entries.find(([key, { name }]) => key === text || name === text)
  if (found) return found[0]
  const names = entries.map(([, { name }]) => name).join(', ')
  throw new CommandFailure(`no topic is called ${text}. There are ${names}`, exitCodes.usage)
}

const UNIT_MS: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Reads `1200`, `-100`, `2h` (ago) or a time such as `2026-11-21T14:00:00Z`. */
export function parsePosition(text: string, nowMs: number): TopicPosition {
  if (/^\d+$/.test(text)) return { offset: Number(text) }
  if (/^-\d+$/.test(text)) return { last: -Number(text) }
  const [, count, unit] = /^(\d{1,9})([smhd])$/.exec(text) ?? []
  if (count !== undefined && unit !== undefined) {
    // Below 0 the brokers take a time for the log's start or end.
    return { time: Math.max(0, nowMs - Number(count) * (UNIT_MS[unit] ?? Number.NaN)) }
  }
  const time = parseInstant(text)
  if (time !== undefined) return { time }
  throw new CommandFailure(
    `${text} is no position: give an offset (1200), the last N records (-100), how long ago (30s, 15m, 2h, 7d) ` +
      'or a time (2026-11-21 or 2026-11-21T14:00:00Z)',
    exitCodes.usage,
  )
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
