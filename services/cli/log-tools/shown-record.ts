/**
 * A record of the log as a person or a filter sees it.
 *
 * Pure but for schemas that are read for the first time. Bytes that are no event of ours are shown as they are (`event`
 * null, `value` their base64), never dropped and never an exception.
 */
import { type Codec, eventOf } from '#infra/kafka/codec.ts'
import type { ScannedRecord } from '#infra/kafka/topic-scan.ts'

/** What a tool shows of a record. */
export interface ShownRecord {
  topic: string
  partition: number
  offset: number
  key: string | null
  /** The event's name; null for a tombstone and for bytes that cannot be read. */
  event: string | null
  value: unknown
  /** Milliseconds since the epoch at which the log took it. */
  timestamp: number
}

/** Decodes a record for showing. */
export function showRecord(codec: Codec, topic: string, record: ScannedRecord): ShownRecord {
  const { partition, offset, timestamp } = record
  const origin = { topic, partition, offset, key: record.key?.toString() ?? null }
  return { ...origin, ...showBytes(codec, record.value), timestamp }
}

/** The event and value of some bytes. */
export function showBytes(codec: Codec, bytes: Buffer | null): { event: string | null; value: unknown } {
  const found = eventOf(codec, bytes)
  return found
    ? { event: found.event, value: plain(found.value) }
    : { event: null, value: bytes?.toString('base64') ?? null }
}

/** Bytes as base64 and decoded classes as plain objects, so that JSON and filters see the same. */
function plain(value: unknown): unknown {
  if (Buffer.isBuffer(value)) return value.toString('base64')
  if (Array.isArray(value)) return value.map(plain)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, plain(each)]))
}

/** One line for a terminal. */
export function lineOf({ partition, offset, key, event, value, timestamp }: ShownRecord): string {
  const at = new Date(timestamp).toISOString()
  return `${at}  ${partition}@${offset}  ${key ?? '-'}  ${event ?? 'unreadable'}  ${JSON.stringify(value)}`
}
