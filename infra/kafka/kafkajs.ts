/**
 * kafkajs 2.2.4 with its five known faults corrected, and three slow spots (two in kafkajs-encoding.ts); the only place that loads it.
 *
 * (a) Its filter leaks aborted records when transactions interleave (1.4 percent of a real topic): rewritten by producer.
 * (b) A fetch of only an emptied batch of a compacted topic never advances: one control record stands for the batch.
 * (c) A timer of the request queue spins every millisecond when nothing waits: it returns early.
 * (d) A broker that goes away while it is asked for a coordinator ends a consumer for good: it counts as one that was not
 * found, which is looked up again. (e) So does a fetch that is cut off in a partition's first 17 bytes: it brought nothing.
 * The version is pinned; test/integration/kafkajs.test.ts and test/unit/fetch-decoding.test.ts hold the corrections.
 */
import { createRequire } from 'node:module'
import type * as kafkajs from 'kafkajs'
import { groupByPartition, recordEncoder } from './kafkajs-encoding.ts'

const load = createRequire(import.meta.url)

interface WireRecord {
  offset: string
  key: Buffer | null
  isControlRecord: boolean
  batchContext: { producerId: string; inTransaction: boolean; firstOffset: string; lastOffsetDelta: number }
}

interface AbortedTransaction {
  producerId: string
  firstOffset: string
}

/** Drops records of aborted transactions; control records stay, for the offsets that they occupy. */
export function withoutAborted<T extends WireRecord>(given: {
  messages: T[]
  abortedTransactions?: AbortedTransaction[] | null
}): T[] {
  const { messages, abortedTransactions } = given
  if (!abortedTransactions?.length) return messages
  const waiting = abortedTransactions
    .map(aborted => ({ producer: aborted.producerId, first: BigInt(aborted.firstOffset) }))
    .sort((a, b) => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0))
  const open = new Set<string>()
  let next = 0
  return messages.filter(message => {
    const offset = BigInt(message.offset)
    for (let aborted = waiting[next]; aborted && aborted.first <= offset; aborted = waiting[++next]) {
      open.add(aborted.producer)
    }
    if (message.isControlRecord) {
      if (isAbortMarker(message.key)) open.delete(message.batchContext.producerId)
      return true
    }
    return !(message.batchContext.inTransaction && open.has(message.batchContext.producerId))
  })
}

/** Bytes 2 and 3 of a control record's key hold its type: 0 aborts, 1 commits. */
const isAbortMarker = (key: Buffer | null): boolean => key !== null && key.length >= 4 && key.readInt16BE(2) === 0

interface Decoder {
  readInt32(): number
  canReadBytes(size: number): boolean
  readBytes(size: number): Buffer
}

interface RecordBatch {
  records: WireRecord[]
  firstOffset: string
  lastOffsetDelta: number
  maxTimestamp: string
}

const RECORD_BATCH_MAGIC = 2
const BATCH_HEADER_BYTES = 49
const MAGIC_OFFSET = 16

function correctDecodeMessages(): void {
  const BufferDecoder = load('kafkajs/src/protocol/decoder') as new (buffer: Buffer) => Decoder
  const decodeBatch = load('kafkajs/src/protocol/recordBatch/v0/decoder') as (decoder: Decoder) => Promise<RecordBatch>
  replaceExport('protocol/requests/fetch/v4/decodeMessages', () => async (decoder: Decoder): Promise<WireRecord[]> => {
    const size = decoder.readInt32()
    if (size <= 0 || !decoder.canReadBytes(size)) return []
    const buffer = decoder.readBytes(size)
    if (size <= MAGIC_OFFSET) return []
    if (buffer.readInt8(MAGIC_OFFSET) !== RECORD_BATCH_MAGIC) throw new Error('message format older than Kafka 0.11')
    const batches = new BufferDecoder(buffer)
    const out: WireRecord[] = []
    while (batches.canReadBytes(BATCH_HEADER_BYTES)) {
      const batch = await decodeOrPartial(decodeBatch, batches)
      if (batch === undefined) break
      for (const record of batch.records) out.push(record)
      const last = (BigInt(batch.firstOffset) + BigInt(batch.lastOffsetDelta)).toString()
      if (batch.records.at(-1)?.offset !== last) out.push(emptyTail(batch, last))
    }
    return out
  })
}

async function decodeOrPartial(
  decode: (decoder: Decoder) => Promise<RecordBatch>,
  decoder: Decoder,
): Promise<RecordBatch | undefined> {
  try {
    return await decode(decoder)
  } catch (error) {
    if (error instanceof Error && error.name === 'KafkaJSPartialMessageError') return undefined
    throw error
  }
}

function emptyTail(batch: RecordBatch, offset: string): WireRecord {
  const { records: _, ...context } = batch
  return {
    magicByte: RECORD_BATCH_MAGIC,
    attributes: 0,
    timestamp: batch.maxTimestamp,
    offset,
    key: null,
    value: null,
    headers: {},
    isControlRecord: true,
    batchContext: context,
  } as unknown as WireRecord
}

/** Puts another function in the place of what a file of the client exports. */
function replaceExport<T>(path: string, replace: (original: T) => unknown): void {
  const file = load.resolve(`kafkajs/src/${path}`)
  const original = load(file) as T
  const cached = load.cache[file]
  if (!cached) throw new Error('kafkajs was not loaded from files: its corrections cannot be applied')
  cached.exports = replace(original)
}

function correctRequestTimer(): void {
  const { prototype } = load('kafkajs/src/network/requestQueue') as {
    prototype: { pending: unknown[]; throttledUntil: number; scheduleCheckPendingRequests(): void }
  }
  const schedule = prototype.scheduleCheckPendingRequests
  prototype.scheduleCheckPendingRequests = function () {
    if (this.pending.length === 0) return
    if (this.throttledUntil < 0) this.throttledUntil = Date.now()
    schedule.call(this)
  }
}

function correctCoordinatorSearch(): void {
  const { KafkaJSBrokerNotFound } = load('kafkajs/src/errors') as { KafkaJSBrokerNotFound: new (why: string) => Error }
  const { prototype } = load('kafkajs/src/cluster') as {
    prototype: { findGroupCoordinatorMetadata(group: unknown): Promise<unknown> }
  }
  const find = prototype.findGroupCoordinatorMetadata
  prototype.findGroupCoordinatorMetadata = async function (group) {
    try {
      return await find.call(this, group)
    } catch (error) {
      if (!(error instanceof Error) || error.name !== 'KafkaJSGroupCoordinatorNotFound') throw error
      throw new KafkaJSBrokerNotFound(error.message)
    }
  }
}

/** After a move a transaction fails, or is tried again, until this is over; those of a busy producer come many times in it. */
const COORDINATOR_KNOWN_MS = 2_000

interface CoordinatorSearch {
  findGroupCoordinatorMetadata(wanted: { groupId: string; coordinatorType: number }): Promise<unknown>
}

/**
 * A cluster as a transactional producer sees it: who coordinates is asked for once in a while. The client asks four times in
 * each transaction, of nine requests one after the other.
 */
export function withKnownCoordinators<T extends CoordinatorSearch>(cluster: T, now: () => number): T {
  const known = new Map<string, { until: number; metadata: unknown }>()
  return Object.assign(Object.create(cluster) as T, {
    async findGroupCoordinatorMetadata(wanted: { groupId: string; coordinatorType: number }): Promise<unknown> {
      const key = `${wanted.coordinatorType} ${wanted.groupId}`
      const found = known.get(key)
      if (found && now() < found.until) return found.metadata
      const metadata = await cluster.findGroupCoordinatorMetadata(wanted)
      known.set(key, { until: now() + COORDINATOR_KNOWN_MS, metadata })
      return metadata
    },
  })
}

function rememberCoordinators(): void {
  type Options = { cluster: CoordinatorSearch }
  replaceExport('producer/eosManager', (open: (options: Options) => unknown) => (options: Options) => {
    return open({ ...options, cluster: withKnownCoordinators(options.cluster, () => performance.now()) })
  })
}

replaceExport('consumer/filterAbortedMessages', () => withoutAborted)
replaceExport('producer/groupMessagesPerPartition', () => groupByPartition)
replaceExport('protocol/recordBatch/record/v0', recordEncoder)
correctDecodeMessages()
correctRequestTimer()
correctCoordinatorSearch()
rememberCoordinators()
// Its default partitioner is Kafka's own, which is the one wanted here; the notice adds nothing.
process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'

const corrected = load('kafkajs') as typeof kafkajs

/** The client class, corrected. */
export const Kafka = corrected.Kafka
/** Log levels of the client. */
export const logLevel = corrected.logLevel
/** Loads a part of the pinned client that its package does not export. */
export const loadInternal = (path: string): unknown => load(`kafkajs/src/${path}`)
/** Compression codes, the codecs behind them, and the kinds of things that settings belong to. */
export const { CompressionTypes, CompressionCodecs, ConfigResourceTypes } = corrected
