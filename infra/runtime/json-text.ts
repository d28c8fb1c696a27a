/**
 * JSON as bytes, put together piece by piece in one buffer that grows.
 *
 * For many small pieces: joined as strings they become a rope that has to be flattened and encoded, which cost more than
 * the pieces.
 */

const [MINUS, ZERO] = [0x2d, 0x30]
const BILLION = 1_000_000_000

/** JSON being written. */
export class JsonText {
  private bytes: Buffer<ArrayBuffer>
  private at = 0

  /** `capacity`: bytes that it holds before it grows. */
  constructor(capacity: number) {
    this.bytes = Buffer.allocUnsafeSlow(capacity)
  }

  /** The bytes that were written; nothing may be written afterwards. */
  take(): Buffer<ArrayBuffer> {
    return this.bytes.subarray(0, this.at)
  }

  ascii(piece: Buffer): void {
    const { length } = piece
    this.reserve(length)
    const { bytes } = this
    let { at } = this
    for (let i = 0; i < length; i++) bytes[at++] = piece[i] as number
    this.at = at
  }

  text(piece: string): void {
    this.reserve(piece.length * 3)
    this.at += this.bytes.write(piece, this.at)
  }

  integer(value: number): void {
    if (!Number.isSafeInteger(value)) {
      this.text(JSON.stringify(value))
      return
    }
    this.reserve(17)
    let rest = value
    if (rest < 0) {
      this.bytes[this.at++] = MINUS
      rest = -rest
    }
    if (rest < BILLION) {
      this.digits(rest, digitsOf(rest))
      return
    }
    const high = Math.floor(rest / BILLION)
    this.digits(high, digitsOf(high))
    this.digits(rest - high * BILLION, 9)
  }

  private digits(value: number, count: number): void {
    const { bytes } = this
    let rest = value
    for (let i = this.at + count - 1; i >= this.at; i--) {
      const higher = (rest / 10) | 0
      bytes[i] = ZERO + rest - higher * 10
      rest = higher
    }
    this.at += count
  }

  private reserve(more: number): void {
    if (this.at + more <= this.bytes.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(this.bytes.length * 2, this.at + more))
    this.bytes.copy(larger, 0, 0, this.at)
    this.bytes = larger
  }
}

/** Digits of an integer below a billion times ten. */
function digitsOf(value: number): number {
  let digits = 1
  for (let limit = 10; value >= limit && digits < 10; limit *= 10) digits += 1
  return digits
}
