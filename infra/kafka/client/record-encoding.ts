/**
 * kafkajs gives every record a zeroed 512-byte buffer and 64-bit objects for its lengths. Here a record is written into one buffer
 * of about its size.
 */
import { replaceExport } from './internals.ts'

/** In place of the own Encoder of the batch encoder, which reads these two members only. */
interface EncodedRecord {
  buf: Buffer
  buffer: Buffer
}

interface RecordFields {
  key?: Buffer | string | null
  value: Buffer | string | null
  offsetDelta?: number
  timestampDelta?: number
  headers?: Record<string, unknown>
}

const LARGEST_VARINT = 2 ** 30
const VARINT_BYTES = 5
/** Attributes, and six lengths and deltas. */
const OTHER_BYTES = 1 + 6 * VARINT_BYTES
const length = Buffer.alloc(VARINT_BYTES)

/**
 * Encodes a record of a batch (magic 2) without headers: length, attributes, time and offset deltas,
 * key, value. Records with headers, or deltas beyond 30 bits, go to the original.
 */
export function recordEncoder(original: (fields: RecordFields) => EncodedRecord) {
  return (fields: RecordFields): EncodedRecord => {
    const { offsetDelta = 0, timestampDelta = 0, key, value, headers } = fields
    const isPlain = headers === undefined && isSmall(offsetDelta) && isSmall(timestampDelta)
    if (!isPlain) return original(fields)
    const [keyBytes, valueBytes] = [bytesOf(key), bytesOf(value)]
    const buffer = Buffer.allocUnsafe(OTHER_BYTES + (keyBytes?.length ?? 0) + (valueBytes?.length ?? 0))
    buffer[VARINT_BYTES] = 0
    let at = writeVarInt(buffer, timestampDelta, VARINT_BYTES + 1)
    at = writeVarInt(buffer, offsetDelta, at)
    at = writeBytes(buffer, keyBytes, at)
    at = writeBytes(buffer, valueBytes, at)
    at = writeVarInt(buffer, 0, at)
    // Its length stands right before the rest, and is known last.
    const start = VARINT_BYTES - writeVarInt(length, at - VARINT_BYTES, 0)
    length.copy(buffer, start, 0, VARINT_BYTES - start)
    const record = buffer.subarray(start, at)
    return { buf: record, buffer: record }
  }
}

const isSmall = (delta: number): boolean => delta > -LARGEST_VARINT && delta < LARGEST_VARINT

function bytesOf(content: Buffer | string | null | undefined): Buffer | null {
  if (content === null || content === undefined) return null
  return typeof content === 'string' ? Buffer.from(content) : content
}

const zigzag = (value: number): number => ((value << 1) ^ (value >> 31)) >>> 0

function writeVarInt(buffer: Buffer, value: number, at: number): number {
  let rest = zigzag(value)
  let offset = at
  while (rest >= 0x80) {
    buffer[offset++] = (rest & 0x7f) | 0x80
    rest >>>= 7
  }
  buffer[offset++] = rest
  return offset
}

function writeBytes(buffer: Buffer, bytes: Buffer | null, at: number): number {
  if (bytes === null) return writeVarInt(buffer, -1, at)
  const start = writeVarInt(buffer, bytes.length, at)
  buffer.set(bytes, start)
  return start + bytes.length
}

export const replaceRecordEncoding = (): void => replaceExport('protocol/recordBatch/record/v0', recordEncoder)
