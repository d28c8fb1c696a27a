/**
 * Fetches, of consumers and of the range reader: the answer's bytes straight to records, committed ones only.
 *
 * kafkajs leaks aborted records when transactions interleave (1.4 percent of a real topic), never passes a batch that compaction has
 * emptied, and ends a consumer on a fetch that is cut off in a partition's first 17 bytes. It also makes of each record an object of nine
 * members, its offset and time through 64-bit objects and texts, and filters three times. Here a record costs a third of it, which replay,
 * restores and resuming streams are made of. Reads what brokers since 0.11 write (magic 2). Invariant: whole batches of aborted
 * transactions are left out by producer and first offset, as the Java client does; control records never show; what a fetch cut off at its
 * end is left for the next. Compared with what was encoded in test/unit, with the Java client on a broker in test/integration/kafkajs.test.ts.
 */
import { loadInternal, replaceExport } from './internals.ts'
import { type ExchangingBroker, withErrors, withExchanges } from './wire.ts'

export interface DecodedRecord {
  partition: number
  offset: number
  key: Buffer | null
  value: Buffer | null
  /** Milliseconds since the epoch that the broker or the producer stamped. */
  timestamp: number
}

export interface FetchedRecords {
  partition: number
  errorCode: number
  end: number
  stableEnd: number
  /** The offset of the first whole batch and that behind the last, records of which may be left out; undefined when there is none. */
  first: number | undefined
  next: number | undefined
  records: DecodedRecord[]
}

interface Fetched {
  throttleTime: number
  clientSideThrottleTime: number
  responses: { topicName: string; partitions: FetchedRecords[] }[]
}

export interface FetchingBroker extends ExchangingBroker {
  fetch(request: object): Promise<unknown>
}

const { createErrorFromCode } = loadInternal('protocol/error') as { createErrorFromCode(code: number): Error }

/** Why a partition brought nothing; undefined when all is well with it. */
export const errorOf = ({ errorCode }: FetchedRecords): Error | undefined =>
  errorCode === 0 ? undefined : createErrorFromCode(errorCode)

const { lookupCodecByAttributes } = loadInternal('protocol/message/compression') as {
  lookupCodecByAttributes(attributes: number): { decompress(bytes: Buffer): Promise<Buffer> } | null
}

/** Fetches by the client's own request and connection, and decodes the answer here. Errors of partitions are returned, not thrown. */
export async function fetchRecords(broker: FetchingBroker, request: object): Promise<FetchedRecords[]> {
  const lean = withExchanges(broker, ({ request, response }) =>
    withErrors({ request, response: { ...response, decode: decodeFetch } }),
  )
  const { responses } = (await lean.fetch(request)) as Fetched
  return responses.flatMap(({ partitions }) => partitions)
}

/** Consumers get what they take for records: those of the log, and in front and behind one that shows none, for the offsets left out. */
export const correctFetches = (): void =>
  replaceExport('protocol/requests/fetch/v11/response', ({ parse }: { parse: unknown }) => ({
    parse,
    async decode(bytes: Buffer) {
      const { responses, ...head } = await decodeFetch(bytes)
      const ofClient = responses.map(({ topicName, partitions }) => ({
        topicName,
        partitions: partitions.map(toClient),
      }))
      return { ...head, responses: ofClient }
    },
  }))

function toClient({ partition, errorCode, end, stableEnd, first, next, records }: FetchedRecords) {
  const messages = records.map(({ offset, timestamp, key, value }) => {
    return { offset: String(offset), timestamp: String(timestamp), key, value, isControlRecord: false }
  })
  const hidden = (offset: number) => ({ offset: String(offset), isControlRecord: true })
  return {
    partition,
    errorCode,
    highWatermark: String(end),
    lastStableOffset: String(stableEnd),
    abortedTransactions: [],
    messages: first === undefined || next === undefined ? [] : [hidden(first), ...messages, hidden(next - 1)],
  }
}

interface Cursor {
  bytes: Buffer
  at: number
}

const TWO_32 = 2 ** 32

function int16(cursor: Cursor): number {
  cursor.at += 2
  return cursor.bytes.readInt16BE(cursor.at - 2)
}

function int32(cursor: Cursor): number {
  cursor.at += 4
  return cursor.bytes.readInt32BE(cursor.at - 4)
}

/** Offsets and times stay far below 2^53; ids of producers may not and are only compared. */
function int64(cursor: Cursor): number {
  const high = int32(cursor)
  cursor.at += 4
  return high * TWO_32 + cursor.bytes.readUInt32BE(cursor.at - 4)
}

function text(cursor: Cursor): string {
  const length = int16(cursor)
  cursor.at += length
  return cursor.bytes.toString('utf8', cursor.at - length, cursor.at)
}

/** A zigzag varint of up to 53 bits. */
function varint(cursor: Cursor): number {
  const { bytes } = cursor
  let byte = bytes[cursor.at++] as number
  if (byte < 0x80) return (byte >>> 1) ^ -(byte & 1)
  let value = byte & 0x7f
  for (let weight = 128; byte >= 0x80; weight *= 128) {
    byte = bytes[cursor.at++] as number
    value += (byte & 0x7f) * weight
  }
  return value % 2 === 0 ? value / 2 : -(value + 1) / 2
}

function content(cursor: Cursor): Buffer | null {
  const length = varint(cursor)
  if (length < 0) return null
  cursor.at += length
  return cursor.bytes.subarray(cursor.at - length, cursor.at)
}

/** The answer of Fetch, version 11, which every broker since 2.3 and the pinned client support. */
export async function decodeFetch(bytes: Buffer): Promise<Fetched> {
  const cursor: Cursor = { bytes, at: 0 }
  const responses: Fetched['responses'] = []
  const clientSideThrottleTime = int32(cursor)
  int16(cursor) // error of the session, of which there is none
  int32(cursor)
  for (let topics = int32(cursor); topics > 0; topics--) {
    const response: Fetched['responses'][number] = { topicName: text(cursor), partitions: [] }
    for (let count = int32(cursor); count > 0; count--) response.partitions.push(await decodePartition(cursor))
    responses.push(response)
  }
  return { throttleTime: 0, clientSideThrottleTime, responses }
}

async function decodePartition(cursor: Cursor): Promise<FetchedRecords> {
  const partition = int32(cursor)
  const errorCode = int16(cursor)
  const end = int64(cursor)
  const stableEnd = int64(cursor)
  int64(cursor) // start of the log
  const aborted: Aborted[] = []
  for (let count = int32(cursor); count > 0; count--) aborted.push({ producer: int64(cursor), first: int64(cursor) })
  int32(cursor) // replica to read from
  const size = int32(cursor)
  const set = cursor.bytes.subarray(cursor.at, cursor.at + Math.max(size, 0))
  cursor.at += set.length
  const batches = batchesOf(set)
  const records: DecodedRecord[] = []
  for (const batch of committed(batches, aborted)) {
    const bytes = (await lookupCodecByAttributes(batch.attributes)?.decompress(batch.body)) ?? batch.body
    addRecords(batch, bytes, partition, records)
  }
  const last = batches.at(-1)?.last
  return { partition, errorCode, end, stableEnd, first: batches[0]?.first, next: last && last + 1, records }
}

interface Aborted {
  producer: number
  first: number
}

interface Batch {
  first: number
  last: number
  attributes: number
  firstTimestamp: number
  maxTimestamp: number
  producer: number
  count: number
  body: Buffer
}

const MAGIC = 2
const LOG_APPEND_TIME = 0x8
const TRANSACTIONAL = 0x10
const CONTROL = 0x20
/** First offset and length. */
const PREFIX_BYTES = 12

function batchesOf(bytes: Buffer): Batch[] {
  const batches: Batch[] = []
  const cursor: Cursor = { bytes, at: 0 }
  while (cursor.at + PREFIX_BYTES <= bytes.length) {
    const first = int64(cursor)
    const end = int32(cursor) + cursor.at
    if (end > bytes.length) break
    int32(cursor) // epoch of the leader
    if (cursor.bytes.readInt8(cursor.at++) !== MAGIC) throw new Error('message format older than Kafka 0.11')
    int32(cursor) // checksum
    const attributes = int16(cursor)
    const last = first + int32(cursor)
    const [firstTimestamp, maxTimestamp, producer] = [int64(cursor), int64(cursor), int64(cursor)]
    int16(cursor) // epoch of the producer
    int32(cursor) // first sequence
    const count = int32(cursor)
    const body = bytes.subarray(cursor.at, end)
    batches.push({ first, last, attributes, firstTimestamp, maxTimestamp, producer, count, body })
    cursor.at = end
  }
  return batches
}

function committed(batches: readonly Batch[], aborted: readonly Aborted[]): Batch[] {
  const waiting = [...aborted].sort((a, b) => a.first - b.first)
  const open = new Set<number>()
  let next = 0
  return batches.filter(({ last, attributes, producer }) => {
    for (let one = waiting[next]; one && one.first <= last; one = waiting[++next]) open.add(one.producer)
    if (attributes & CONTROL) {
      // A control batch is one marker, and ends its producer's transaction either way.
      open.delete(producer)
      return false
    }
    return !(attributes & TRANSACTIONAL && open.has(producer))
  })
}

function addRecords(batch: Batch, bytes: Buffer, partition: number, records: DecodedRecord[]): void {
  const { first, attributes, firstTimestamp, maxTimestamp } = batch
  const cursor: Cursor = { bytes, at: 0 }
  for (let count = batch.count; count > 0; count--) {
    const length = varint(cursor)
    const end = cursor.at + length
    cursor.at += 1 // attributes of the record, unused
    const stamped = firstTimestamp + varint(cursor)
    const offset = first + varint(cursor)
    const key = content(cursor)
    const value = content(cursor)
    // Headers are not used here.
    cursor.at = end
    records.push({ partition, offset, key, value, timestamp: attributes & LOG_APPEND_TIME ? maxTimestamp : stamped })
  }
}
