/**
 * A record of the log as a person, a filter or a program sees it.
 *
 * Pure but for schemas that are read for the first time. Bytes that are no event of ours are shown as they are (`event`
 * null, `value` their base64), never dropped and never an exception.
 */
import { NotPlain } from '#infra/kafka/avro-json.ts'
import { type Codec, eventOf } from '#infra/kafka/codec.ts'
import type { LogRecord } from '#infra/kafka/range-reader.ts'
import { JsonText } from '#infra/runtime/json-text.ts'
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

/** Bytes as base64 and decoded classes as plain objects, so that JSON and filters see the same. */
function plain(value: unknown): unknown {
  if (Buffer.isBuffer(value)) return value.toString('base64')
  if (Array.isArray(value)) return value.map(plain)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, plain(each)]))
}

const RECORDS_PER_WRITE = 1_000

/**
 * Writes records as lines, as `tail` prints them; `isRaw` leaves the value undecoded, in base64. Resolves when the output has
 * taken them, so a slow one slows its writer and nothing accumulates.
 */
export function openRecordWriter(
  codec: Codec,
  topic: TopicDefinition,
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

const FIRST_CAPACITY = 64 * 1024
const piece = (text: string): Buffer => Buffer.from(text)
const NULL = piece('null')
const [OFFSET, KEY, RAW] = [piece(',"offset":'), piece(',"key":'), piece(',"raw":')]
const [TIMESTAMP, END] = [piece(',"timestamp":'), piece('}\n')]

/**
 * Opens the text of a topic's records: the lines that {@link showRecord} makes, at the speed of the log; raw lines hold the value's
 * bytes as base64 under `raw` and no event.
 *
 * Values go from Avro to JSON as bytes (infra/kafka/avro-json.ts): 3.5 µs of CPU a line in total. Rejected: decoding and
 * JSON.stringify, 5.2 to 5.6; text from the Avro bytes as strings, 6.2, since fifty pieces make a rope that has to be flattened.
 */
export function openRecordText(
  codec: Codec,
  { name, events }: TopicDefinition,
  isRaw: boolean,
): (records: readonly LogRecord[]) => Buffer<ArrayBuffer> {
  const start = piece(`{"topic":${JSON.stringify(name)},"partition":`)
  const eventPieces = new Map(events.map(event => [event.name, piece(`,"event":"${event.name}","value":`)]))
  const addOrigin = (to: JsonText, { partition, offset, key }: LogRecord): void => {
    to.ascii(start)
    to.integer(partition)
    to.ascii(OFFSET)
    to.integer(offset)
    to.ascii(KEY)
    if (key === null) to.ascii(NULL)
    else to.quoted(key, 0, key.length)
  }
  const addRaw = (to: JsonText, record: LogRecord): void => {
    addOrigin(to, record)
    to.ascii(TIMESTAMP)
    to.integer(record.timestamp)
    to.ascii(RAW)
    to.text(record.value === null ? 'null' : `"${record.value.toString('base64')}"`)
    to.ascii(END)
  }
  /** False when the record takes decoding. */
  const addPlain = (to: JsonText, record: LogRecord): boolean => {
    const { value, timestamp } = record
    const plain = value === null ? undefined : codec.plain(value)
    const event = plain && eventPieces.get(plain.event)
    if (value === null || !event) return false
    const before = to.length
    try {
      addOrigin(to, record)
      to.ascii(event)
      plain.write(value, to)
    } catch (error) {
      if (!(error instanceof NotPlain)) throw error
      to.cut(before)
      return false
    }
    to.ascii(TIMESTAMP)
    to.integer(timestamp)
    to.ascii(END)
    return true
  }
  let capacity = FIRST_CAPACITY
  return records => {
    const to = new JsonText(capacity)
    for (const record of records) {
      if (isRaw) addRaw(to, record)
      // A new writer schema, bytes within an event, poison: decoding handles them all.
      else if (!addPlain(to, record)) to.text(`${JSON.stringify(showRecord(codec, name, record))}\n`)
    }
    const lines = to.take()
    capacity = Math.max(FIRST_CAPACITY, Math.ceil(lines.length * 1.1))
    return lines
  }
}
