/**
 * kafkajs never passes a batch that compaction has emptied, and ends a consumer on a fetch that is cut off in a partition's first
 * 17 bytes. Here one control record replaces what a batch lacks at its end, and a fetch that was cut off there returns nothing.
 *
 * Tested on a broker in test/integration/kafkajs.test.ts.
 */
import type { WireRecord } from './aborted-records.ts'
import { loadInternal, replaceExport } from './internals.ts'

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

export function correctEmptiedBatches(): void {
  const BufferDecoder = loadInternal('protocol/decoder') as new (buffer: Buffer) => Decoder
  const decodeBatch = loadInternal('protocol/recordBatch/v0/decoder') as (decoder: Decoder) => Promise<RecordBatch>
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
