/**
 * Rows of one table in ClickHouse's RowBinary form, appended value by value.
 *
 * Writes memory only. The caller writes the columns in the table's own order and calls `endRow` after
 * each row. Rows are kept in blocks of bounded size, so that a batch can be cut between rows. Measured
 * on the `changes` table, 50,000 rows an insert, two busy cores: 530 k rows/s and 0.5 us of client CPU a
 * row, against 386 k and 0.8 us as JSONCompactEachRow.
 */
import type { Table } from './table.ts'

/** Whole rows as bytes. */
export interface RowBlock {
  bytes: Buffer
  rows: number
}

const FIRST_BYTES = 4_096
const BLOCK_ROWS = 10_000
const TWO_32 = 2 ** 32

/** Appends rows of one table. */
export class RowBuffer {
  readonly table: Table
  #blocks: RowBlock[] = []
  #bytes = Buffer.allocUnsafe(FIRST_BYTES)
  #at = 0
  #rowsInBlock = 0
  #rows = 0

  constructor(table: Table) {
    this.table = table
  }

  /** Rows ended so far. */
  get rows(): number {
    return this.#rows
  }

  /** UInt8, Bool and Enum8. */
  u8(value: number): void {
    this.#reserve(1)
    this.#bytes[this.#at++] = value
  }

  bool(value: boolean): void {
    this.u8(value ? 1 : 0)
  }

  /** UInt16, and Date as days since 1970. */
  u16(value: number): void {
    this.#reserve(2)
    this.#at = this.#bytes.writeUInt16LE(value, this.#at)
  }

  /** UInt32, and DateTime as seconds since 1970. */
  u32(value: number): void {
    this.#reserve(4)
    this.#at = this.#bytes.writeUInt32LE(value, this.#at)
  }

  i32(value: number): void {
    this.#reserve(4)
    this.#at = this.#bytes.writeInt32LE(value, this.#at)
  }

  /** Int64 and UInt64 up to 2^53, and DateTime64(3) as milliseconds since 1970. */
  i64(value: number): void {
    this.#reserve(8)
    const high = Math.floor(value / TWO_32)
    this.#bytes.writeUInt32LE(value - high * TWO_32, this.#at)
    this.#at = this.#bytes.writeInt32LE(high, this.#at + 4)
  }

  f64(value: number): void {
    this.#reserve(8)
    this.#at = this.#bytes.writeDoubleLE(value, this.#at)
  }

  /** String and LowCardinality(String). */
  text(value: string): void {
    const longest = value.length * 3
    this.#reserve(longest + 5)
    if (longest < 128) {
      // The length takes one byte whatever the characters, so the text can be written right behind it.
      const length = this.#bytes.write(value, this.#at + 1)
      this.#bytes[this.#at] = length
      this.#at += length + 1
      return
    }
    this.length(Buffer.byteLength(value))
    this.#at += this.#bytes.write(value, this.#at)
  }

  /** The number of elements of an Array or a Map, which follow it. */
  length(count: number): void {
    this.#reserve(5)
    let rest = count
    for (; rest >= 128; rest >>>= 7) this.#bytes[this.#at++] = (rest & 127) | 128
    this.#bytes[this.#at++] = rest
  }

  nullableI64(value: number | null): void {
    if (this.#isPresent(value)) this.i64(value)
  }

  nullableI32(value: number | null): void {
    if (this.#isPresent(value)) this.i32(value)
  }

  nullableF64(value: number | null): void {
    if (this.#isPresent(value)) this.f64(value)
  }

  nullableText(value: string | null): void {
    if (this.#isPresent(value)) this.text(value)
  }

  /** Ends a row. */
  endRow(): void {
    this.#rows++
    if (++this.#rowsInBlock >= BLOCK_ROWS) this.#seal()
  }

  /** Hands over all rows and starts empty again. */
  take(): RowBlock[] {
    this.#seal()
    const blocks = this.#blocks
    this.#blocks = []
    this.#rows = 0
    return blocks
  }

  /** A Nullable begins with a byte: 1 when it is null. */
  #isPresent<T>(value: T | null): value is T {
    this.u8(value === null ? 1 : 0)
    return value !== null
  }

  #seal(): void {
    if (this.#rowsInBlock === 0) return
    this.#blocks.push({ bytes: this.#bytes.subarray(0, this.#at), rows: this.#rowsInBlock })
    this.#bytes = Buffer.allocUnsafe(FIRST_BYTES)
    this.#at = 0
    this.#rowsInBlock = 0
  }

  #reserve(bytes: number): void {
    if (this.#at + bytes <= this.#bytes.length) return
    const grown = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#at + bytes))
    this.#bytes.copy(grown, 0, 0, this.#at)
    this.#bytes = grown
  }
}
