/**
 * A record of the log as a person, a filter or a program sees it.
 *
 * Pure but for schemas that are read for the first time. Bytes that are no event of ours are shown as they are (`event`
 * null, `value` their base64), never dropped and never an exception.
 */
import { type Codec, eventOf } from '#infra/kafka/codec.ts'
import type { LogRecord } from '#infra/kafka/range-reader.ts'
import { allTopics, type TopicDefinition } from '#schemas/topics.ts'
import { type Output, write } from '../output.ts'

export type ShownRecord = ReturnType<typeof showRecord>

/** `event` is null for a tombstone and for bytes that cannot be read; `timestamp` is the milliseconds at which the log took it. */
export function showRecord(codec: Codec, topic: string, record: LogRecord) {
  const { partition, offset, timestamp } = record
  const origin = { topic, partition, offset, key: record.key?.toString() ?? null }
  return { ...origin, ...showBytes(codec, record.value), timestamp }
}

/** The event and value of some bytes, bytes within it as base64, so that JSON and filters see the same. */
export function showBytes(codec: Codec, bytes: Buffer | null): { event: string | null; value: unknown } {
  const decoded = eventOf(codec, bytes)
  if (!decoded) return { event: null, value: bytes?.toString('base64') ?? null }
  const { event, value } = decoded
  if (!WITH_BYTES.has(event)) return { event, value }
  const textOf = (member: unknown) => (Buffer.isBuffer(member) ? member.toString('base64') : member)
  return { event, value: Object.fromEntries(Object.entries(value).map(([name, member]) => [name, textOf(member)])) }
}

const WITH_BYTES = new Set(
  allTopics.flatMap(({ events }) =>
    events.flatMap(({ name, avro }) => (JSON.stringify(avro.fields).includes('"bytes"') ? [name] : [])),
  ),
)

/** Larger texts leave the processor's cache before they are encoded. */
const RECORDS_PER_WRITE = 100

/**
 * The text of records as lines, as `tail` prints them; raw lines hold the value's bytes as base64 under `raw` and no event.
 *
 * A line is put together as text, at the speed of the log: JSON.stringify of a whole record took half as long again.
 */
export function openRecordText(
  codec: Codec,
  { name }: Pick<TopicDefinition, 'name'>,
  isRaw: boolean,
): (records: readonly LogRecord[]) => string {
  const start = `{"topic":${JSON.stringify(name)},"partition":`
  const contentOf = (bytes: Buffer | null): string => {
    if (isRaw) return `"raw":${JSON.stringify(bytes?.toString('base64') ?? null)}`
    const { event, value } = showBytes(codec, bytes)
    return `"event":${event === null ? null : `"${event}"`},"value":${JSON.stringify(value)}`
  }
  const lineOf = ({ partition, offset, key, value, timestamp }: LogRecord): string =>
    `${start}${partition},"offset":${offset},"key":${JSON.stringify(key?.toString() ?? null)},${contentOf(value)},"timestamp":${timestamp}}\n`
  return records => records.map(lineOf).join('')
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
