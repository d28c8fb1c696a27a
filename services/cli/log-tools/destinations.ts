/**
 * Where a replay goes: JSON lines on an output, or a topic of one's own.
 *
 * `put` resolves when the destination has taken the records, so a slow one slows the replay and nothing accumulates.
 */
import { NotPlain } from '#infra/kafka/avro-json.ts'
import type { Codec } from '#infra/kafka/codec.ts'
import type { LogAccess } from '#infra/kafka/log-access.ts'
import { openTopicCopy } from '#infra/kafka/topic-copy.ts'
import type { ScannedRecord } from '#infra/kafka/topic-scan.ts'
import { JsonText } from '#infra/runtime/json-text.ts'
import { type TopicDefinition, type TopicKey, topics } from '#schemas/topics.ts'
import { CommandFailure, exitCodes, messageOf } from '../command-failure.ts'
import { type Output, write } from './output.ts'
import { showRecord } from './shown-record.ts'

/** Takes records in the order of the replay. */
interface Destination {
  put(records: readonly ScannedRecord[]): Promise<void>
  close(): Promise<void>
}

const RECORDS_PER_WRITE = 1_000

/** Lines as `tail` prints them; `isRaw` leaves the value undecoded, in base64. */
export function outputDestination(access: LogAccess, key: TopicKey, output: Output, isRaw: boolean): Destination {
  const textOf = openRecordText(access.kafka.codec, topics[key], isRaw)
  return {
    async put(records) {
      for (let at = 0; at < records.length; at += RECORDS_PER_WRITE) {
        await write(output, textOf(records.slice(at, at + RECORDS_PER_WRITE)))
      }
    },
    close: async () => undefined,
  }
}

/** A topic that the catalogue does not name; partitions, keys, bytes and times are the original's. */
export async function topicDestination(access: LogAccess, key: TopicKey, name: string): Promise<Destination> {
  const copy = await openTopicCopy(access.kafka, name, topics[key].partitions).catch(error => {
    throw new CommandFailure(messageOf(error), exitCodes.usage, error)
  })
  return { put: records => copy.send(records), close: () => copy.close() }
}

/** The lines of some records, each with its line end. */
type RecordText = (records: readonly ScannedRecord[]) => Buffer<ArrayBuffer>

const FIRST_CAPACITY = 64 * 1024
const piece = (text: string): Buffer => Buffer.from(text)
const NULL = piece('null')
const [OFFSET, KEY, RAW] = [piece(',"offset":'), piece(',"key":'), piece(',"raw":')]
const [TIMESTAMP, END] = [piece(',"timestamp":'), piece('}\n')]

/**
 * Opens the text of a topic's records: the lines that shown-record.ts makes, at the speed of the log; raw lines hold the value's
 * bytes as base64 under `raw` and no event.
 *
 * Values go from Avro to JSON as bytes (infra/kafka/avro-json.ts): 3.5 µs of CPU a line in total. Rejected: decoding and
 * JSON.stringify, 5.2 to 5.6; text from the Avro bytes as strings, 6.2, since fifty pieces make a rope that has to be flattened.
 */
export function openRecordText(codec: Codec, { name, events }: TopicDefinition, isRaw: boolean): RecordText {
  const start = piece(`{"topic":${JSON.stringify(name)},"partition":`)
  const eventPieces = new Map(events.map(event => [event.name, piece(`,"event":"${event.name}","value":`)]))
  const addOrigin = (to: JsonText, { partition, offset, key }: ScannedRecord): void => {
    to.ascii(start)
    to.integer(partition)
    to.ascii(OFFSET)
    to.integer(offset)
    to.ascii(KEY)
    if (key === null) to.ascii(NULL)
    else to.quoted(key, 0, key.length)
  }
  const raw = (to: JsonText, record: ScannedRecord): void => {
    addOrigin(to, record)
    to.ascii(TIMESTAMP)
    to.integer(record.timestamp)
    to.ascii(RAW)
    to.text(record.value === null ? 'null' : `"${record.value.toString('base64')}"`)
    to.ascii(END)
  }
  /** False when the record takes decoding. */
  const plain = (to: JsonText, record: ScannedRecord): boolean => {
    const { value, timestamp } = record
    const known = value === null ? undefined : codec.plain(value)
    const event = known && eventPieces.get(known.event)
    if (value === null || !event) return false
    const before = to.length
    try {
      addOrigin(to, record)
      to.ascii(event)
      known.write(value, to)
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
      if (isRaw) raw(to, record)
      // A new writer schema, bytes within an event, poison: decoding handles them all.
      else if (!plain(to, record)) to.text(`${JSON.stringify(showRecord(codec, name, record))}\n`)
    }
    const lines = to.take()
    capacity = Math.max(FIRST_CAPACITY, Math.ceil(lines.length * 1.1))
    return lines
  }
}
