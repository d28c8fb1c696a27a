/**
 * Makes an answer around rows whose text and deflated form were made beforehand.
 *
 * The members that depend on the request come before the rows. Both forms are joined, not made: the plain text by
 * its bytes, the compressed one as a single gzip member of deflate segments that end on a byte, with the combined CRC-32
 * (joined members are not read by every client). Invariant: both forms are the same JSON text.
 */
import { constants, crc32, deflateRawSync } from 'node:zlib'
import type { ContentCoding } from '#infra/http/content-coding.ts'
import { crc32Combine } from '#schemas/values/crc32.ts'

/** Rows made beforehand. */
export interface PreparedRows {
  text: Buffer
  /** Raw deflate that ends in a full flush. */
  deflated: Buffer
  /** Of the text. */
  crc: number
}

/** Deflate, no name, no time, an unknown system. */
const GZIP_HEAD = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255])
const FINAL_BLOCK = [0x03, 0x00]

/** The parts of an answer, in order. */
export function preparedBody(
  before: string,
  rows: PreparedRows,
  after: string,
  coding: ContentCoding,
): readonly Buffer[] {
  const [head, tail] = [Buffer.from(before), Buffer.from(after)]
  if (coding === 'identity') return [head, rows.text, tail]
  const crc = crc32Combine(crc32Combine(crc32(head), rows.crc, rows.text.length), crc32(tail), tail.length)
  const end = Buffer.alloc(FINAL_BLOCK.length + 8)
  end.set(FINAL_BLOCK)
  end.writeUInt32LE(crc, FINAL_BLOCK.length)
  end.writeUInt32LE((head.length + rows.text.length + tail.length) % 2 ** 32, FINAL_BLOCK.length + 4)
  return [GZIP_HEAD, deflated(head), rows.deflated, deflated(tail), end]
}

const deflated = (bytes: Buffer): Buffer => deflateRawSync(bytes, { finishFlush: constants.Z_FULL_FLUSH })
