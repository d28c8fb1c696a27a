/**
 * A record of the log as a person, a filter or a program sees it.
 *
 * Pure but for schemas that are read for the first time. Bytes that are no event of ours are shown as they are (`event`
 * null, `value` their base64), never dropped and never an exception.
 */
import { type Codec, eventOf } from '#infra/kafka/codec.ts'
import type { LogRecord } from '#infra/kafka/range-reader.ts'
import type { TopicDefinition } from '#schemas/topics.ts'
import { type Output, write } from '../output.ts'

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

export function showRecord(codec: Codec, topic: string, record: LogRecord): ShownRecord {
  const { partition, offset, timestamp } = record
  const origin = { topic, partition, offset, key: record.key?.toString() ?? null }
  return { ...origin, ...showBytes(codec, record.value), timestamp }
}

/** The event and value of some bytes. */
export function showBytes(codec: Codec, bytes: Buffer | null): { event: string | null; value: unknown } {
  const decoded = eventOf(codec, bytes)
  return decoded
    ? { event: decoded.event, value: plain(decoded.value) }
    : { event: null, value: bytes?.toString('base64') ?? null }
}

/** Bytes as base64, so that JSON and filters see the same; no event has bytes within other values. */
const plain = (value: object): object =>
  Object.values(value).some(Buffer.isBuffer)
    ? Object.fromEntries(
        Object.entries(value).map(([name, each]) => [name, Buffer.isBuffer(each) ? each.toString('base64') : each]),
      )
    : value

const RECORDS_PER_WRITE = 1_000

/** The text of records as lines, as `tail` prints them; raw lines hold the value's bytes as base64 under `raw` and no event. */
export function openRecordText(
  codec: Codec,
  { name }: Pick<TopicDefinition, 'name'>,
  isRaw: boolean,
): (records: readonly LogRecord[]) => string {
  const showRaw = ({ partition, offset, key, timestamp, value }: LogRecord): object => {
    const origin = { topic: name, partition, offset, key: key?.toString() ?? null, timestamp }
    return { ...origin, raw: value?.toString('base64') ?? null }
  }
  const show = isRaw ? showRaw : (record: LogRecord) => showRecord(codec, name, record)
  return records => records.map(record => `${JSON.stringify(show(record))}\n`).join('')
}

/** Writes the same lines. Resolves when the output has taken them, so a slow one slows its writer and nothing accumulates. */
export function openRecordWriter(
  codec: Codec,
  topic: Pick<TopicDefinition, 'name'>,
  output: Output,
  isRaw: boolean,
): (records: readonly LogRecord[]) => Promise<void> {
  const textOf = openRecordText(codec, topic, isRaw)
  return async records => {
    for (let at = 0; at < records.length; at += RECORDS_PER_WRITE) {
      await write(output, textOf(records.slice(at, at + RECORDS_PER_WRITE)))
    }
  }
}
