/**
 * kafkajs gives every record a zeroed 512-byte buffer and 64-bit objects for its lengths. Here a record is written into one buffer
 * of its exact size.
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

/**
 * Encodes a record of a batch (magic 2) without headers: length, attributes, time and offset deltas,
 * key, value. Records with headers, or deltas beyond 30 bits, go to the original.
 */
export function recordEncoder(original: (fields: RecordFields) => EncodedRecord) {
  return (fields: RecordFields): EncodedRecord => {
    const { offsetDelta = 0, timestampDelta = 0, key, value, headers } = fields
    const isPlain = headers === undefined && isSmall(offsetDelta) && isSmall(timestampDelta)
    if (!isPlain) return original(fields)
    const keyBytes = bytesOf(key)
    const valueBytes = bytesOf(value)
    const body =
      1 + sizeOf(timestampDelta) + sizeOf(offsetDelta) + sizeOfBytes(keyBytes) + sizeOfBytes(valueBytes) + sizeOf(0)
    const buffer = Buffer.allocUnsafe(sizeOf(body) + body)
    let at = writeVarInt(buffer, body, 0)
    buffer[at++] = 0
    at = writeVarInt(buffer, timestampDelta, at)
    at = writeVarInt(buffer, offsetDelta, at)
    at = writeBytes(buffer, keyBytes, at)
    at = writeBytes(buffer, valueBytes, at)
    writeVarInt(buffer, 0, at)
    return { buf: buffer, buffer }
  }
}

const isSmall = (delta: number): boolean => delta > -LARGEST_VARINT && delta < LARGEST_VARINT

type Bytes = Buffer | null

function bytesOf(content: Buffer | string | null | undefined): Bytes {
  if (content === null || content === undefined) return null
  return typeof content === 'string' ? Buffer.from(content) : content
}

const zigzag = (value: number): number => ((value << 1) ^ (value >> 31)) >>> 0

function sizeOf(value: number): number {
  const encoded = zigzag(value)
  if (encoded < 0x80) return 1
  if (encoded < 0x4000) return 2
  if (encoded < 0x200000) return 3
  return encoded < 0x10000000 ? 4 : 5
}

const sizeOfBytes = (bytes: Bytes): number => (bytes === null ? sizeOf(-1) : sizeOf(bytes.length) + bytes.length)

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

function writeBytes(buffer: Buffer, bytes: Bytes, at: number): number {
  if (bytes === null) return writeVarInt(buffer, -1, at)
  const start = writeVarInt(buffer, bytes.length, at)
  buffer.set(bytes, start)
  return start + bytes.length
}

export const replaceRecordEncoding = (): void => replaceExport('protocol/recordBatch/record/v0', recordEncoder)
