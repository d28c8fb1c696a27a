/**
 * Makes bodies of what was deflated beforehand: of a bulk snapshot's stored segments, and around the rows of a summary.
 *
 * Segments are raw deflate in blocks that end on a byte, so in a row they are one deflate stream: with a head,
 * the empty final block and the combined CRC-32 it is one gzip member, which every client reads (joined members or
 * frames are not). The plain body inflates block by block in the thread pool. Invariant: at most one block
 * is inflated ahead of the client, and bytes that were sent are freed at once.
 *
 * Lines are not stored a second time in the plain: that would be eight times the memory of Redis and of its log,
 * and no faster (1.2 million asks: 360 ms of a pool thread to inflate, 350 ms of Redis and this process to pass on).
 */
import { promisify } from 'node:util'
import { constants, crc32, deflateRawSync, inflateRaw } from 'node:zlib'
import type { ValuePiece } from '#infra/redis/value-stream.ts'
import { crc32Combine } from '#schemas/values/crc32.ts'
import { type PinnedSegment, plainBytes, storedBytes } from '#streams/live-view/reader.ts'

export type ContentCoding = 'gzip' | 'identity'

const DEFAULT_LEVEL = 0
const FAST = 4

/** Deflate, no name, no time, how it was compressed, on an unknown system. */
const gzipHead = (level: number): Buffer => Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, level, 255])

/** A last block that holds nothing. */
const FINAL_BLOCK = [0x03, 0x00]
const GZIP_FRAME_BYTES = gzipHead(FAST).length + FINAL_BLOCK.length + 8

/** The final block, CRC-32 and length of a member, the latter modulo 2^32. */
function gzipEnd(crc: number, length: number): Buffer {
  const end = Buffer.alloc(FINAL_BLOCK.length + 8)
  end.set(FINAL_BLOCK)
  end.writeUInt32LE(crc, FINAL_BLOCK.length)
  end.writeUInt32LE(length % 2 ** 32, FINAL_BLOCK.length + 4)
  return end
}

const inflate = promisify(inflateRaw) as (
  deflated: Buffer,
  options: { finishFlush: number; chunkSize: number },
) => Promise<Buffer>

export function bodyLength(segments: readonly PinnedSegment[], coding: ContentCoding): number {
  const sum = (bytesOf: (entry: PinnedSegment['entry']) => number): number =>
    segments.reduce((total, { entry }) => total + bytesOf(entry), 0)
  return coding === 'gzip' ? GZIP_FRAME_BYTES + sum(storedBytes) : sum(plainBytes)
}

/**
 * The bytes of a body. The first comes when the first segment has been
 * found. Throws when what is stored is not what its manifest says.
 */
export function bodyOf(
  segments: readonly PinnedSegment[],
  coding: ContentCoding,
  pieces: AsyncGenerator<ValuePiece, void, void>,
): AsyncGenerator<Buffer, void, void> {
  return coding === 'gzip' ? gzipMember(segments, pieces) : inflated(segments, pieces)
}

async function* gzipMember(
  segments: readonly PinnedSegment[],
  pieces: AsyncGenerator<ValuePiece, void, void>,
): AsyncGenerator<Buffer, void, void> {
  let left = bodyLength(segments, 'gzip') - GZIP_FRAME_BYTES
  let isBegun = false
  for await (const { bytes } of pieces) {
    left -= bytes.length
    if (left < 0) throw new Error('a stored segment is longer than its manifest says')
    if (!isBegun) yield gzipHead(FAST)
    isBegun = true
    yield bytes
  }
  if (left > 0) throw new Error('a stored segment is shorter than its manifest says')
  if (!isBegun) yield gzipHead(FAST)
  yield endOf(segments)
}

function endOf(segments: readonly PinnedSegment[]): Buffer {
  let crc = 0
  let length = 0
  for (const { entry } of segments) {
    const bytes = plainBytes(entry)
    crc = crc32Combine(crc, entry.crc, bytes)
    length += bytes
  }
  return gzipEnd(crc, length)
}

async function* inflated(
  segments: readonly PinnedSegment[],
  pieces: AsyncGenerator<ValuePiece, void, void>,
): AsyncGenerator<Buffer, void, void> {
  const blocks = segments.flatMap(({ entry }) => entry.blocks)
  let ahead: Promise<Buffer> | undefined
  for await (const [deflated, length] of collected(blocks, pieces)) {
    const inflating = inflateBlock(deflated, length)
    // It is awaited a turn of the event loop later; until then its failure would be unhandled.
    inflating.catch(() => undefined)
    if (ahead) yield* lent(await ahead)
    ahead = inflating
  }
  if (ahead) yield* lent(await ahead)
}

async function inflateBlock(deflated: Buffer, length: number): Promise<Buffer> {
  // With one spare byte zlib ends in one call; without, it needs a second one.
  const plain = await inflate(deflated, { finishFlush: constants.Z_SYNC_FLUSH, chunkSize: roomFor(length) })
  if (plain.length !== length) throw new Error('a stored block is not as long as its manifest says')
  return plain
}

const LEAST_ROOM = 64
const roomFor = (length: number): number => Math.max(LEAST_ROOM, length + 1)

/**
 * Yields bytes and frees them when the next are requested. Left to the garbage collector, eight plain streams
 * grew the process by 50 to 70 MiB. Small buffers are part of a pool that others share.
 */
function* lent(plain: Buffer): Generator<Buffer, void, void> {
  yield plain
  const { buffer } = plain
  if (buffer instanceof ArrayBuffer && buffer.byteLength === roomFor(plain.length)) buffer.transfer(0)
}

/** Cuts what arrives into the blocks that were stored, each with the length of its lines. */
async function* collected(
  blocks: readonly [bytes: number, deflated: number][],
  pieces: AsyncGenerator<ValuePiece, void, void>,
): AsyncGenerator<[deflated: Buffer, length: number], void, void> {
  let at = 0
  let filled = 0
  let block = Buffer.alloc(0)
  for await (const { bytes } of pieces) {
    for (let taken = 0; taken < bytes.length; ) {
      const [length, deflated] = blocks[at] ?? [0, 0]
      if (deflated === 0) throw new Error('a stored segment is longer than its manifest says')
      if (filled === 0) block = Buffer.allocUnsafeSlow(deflated)
      const copied = bytes.copy(block, filled, taken)
      taken += copied
      filled += copied
      if (filled < deflated) continue
      yield [block, length]
      at += 1
      filled = 0
    }
  }
  if (at < blocks.length) throw new Error('a stored segment is shorter than its manifest says')
}

/**
 * The parts of an answer around rows whose text, its CRC and raw deflate that ends in a full flush were made beforehand: the members that
 * depend on the request come before and after them. Both forms are joined, not made, and are the same JSON text.
 */
export function preparedBody(
  before: string,
  rows: { text: Buffer; deflated: Buffer; crc: number },
  after: string,
  coding: ContentCoding,
): readonly Buffer[] {
  const [head, tail] = [Buffer.from(before), Buffer.from(after)]
  if (coding === 'identity') return [head, rows.text, tail]
  const crc = crc32Combine(crc32Combine(crc32(head), rows.crc, rows.text.length), crc32(tail), tail.length)
  const end = gzipEnd(crc, head.length + rows.text.length + tail.length)
  return [gzipHead(DEFAULT_LEVEL), deflated(head), rows.deflated, deflated(tail), end]
}

const deflated = (bytes: Buffer): Buffer => deflateRawSync(bytes, { finishFlush: constants.Z_FULL_FLUSH })
