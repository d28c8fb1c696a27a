/**
 * Rows of one table in ClickHouse's RowBinary form, written by the types of the table's columns.
 *
 * Writes memory only. Rows are kept in blocks of bounded size, so that a batch can be cut between rows. A row of `changes` takes about
 * 0.8 us of CPU, half of it to find values by their names.
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

// biome-ignore lint/suspicious/noExplicitAny: a column's type decides the shape of its values.
type Write = (value: any) => void

export class RowBuffer {
  readonly table: Table
  readonly #columns: { name: string; write: Write }[]
  #blocks: RowBlock[] = []
  #bytes = Buffer.allocUnsafe(FIRST_BYTES)
  #at = 0
  #rowsInBlock = 0
  #rows = 0

  constructor(table: Table) {
    this.table = table
    this.#columns = Object.entries(table.columns).map(([name, type]) => ({ name, write: this.#writerOf(type) }))
  }

  get rows(): number {
    return this.#rows
  }

  /**
   * Appends a row by the names of its columns; members of other names are left out. A Date is days, a DateTime seconds, a DateTime64 milliseconds since
   * 1970, a Tuple an object and a Map a Map; integers are exact up to 2^53.
   */
  add(row: object): void {
    for (const { name, write } of this.#columns) {
      const value = (row as Record<string, unknown>)[name]
      if (value === undefined) throw new Error(`a row of ${this.table.name} lacks ${name}`)
      write(value)
    }
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

  #writerOf(declaration: string): Write {
    const [, type = '', inner = ''] = /^(\w+)(?:\((.*)\))?(?: DEFAULT .*)?$/.exec(declaration) ?? []
    switch (type) {
      case 'Bool':
        return value => this.#byte(value ? 1 : 0)
      case 'Enum8': {
        const values = new Map([...inner.matchAll(/'(\w+)' = (\d+)/g)].map(([, name, value]) => [name, Number(value)]))
        return value => this.#byte(values.get(value) as number)
      }
      case 'UInt16':
      case 'Date':
        return value => {
          this.#reserve(2)
          this.#at = this.#bytes.writeUInt16LE(value, this.#at)
        }
      case 'UInt32':
      case 'DateTime':
        return value => {
          this.#reserve(4)
          this.#at = this.#bytes.writeUInt32LE(value, this.#at)
        }
      case 'Int32':
        return value => {
          this.#reserve(4)
          this.#at = this.#bytes.writeInt32LE(value, this.#at)
        }
      case 'Int64':
      case 'UInt64':
      case 'DateTime64':
        return value => this.#integer64(value)
      case 'Float64':
        return value => {
          this.#reserve(8)
          this.#at = this.#bytes.writeDoubleLE(value, this.#at)
        }
      case 'String':
        return value => this.#text(value)
      case 'LowCardinality':
        return this.#writerOf(inner)
      case 'SimpleAggregateFunction':
        return this.#writerOf(partsOf(inner).slice(1).join(', '))
      case 'Nullable': {
        const write = this.#writerOf(inner)
        return value => {
          this.#byte(value === null ? 1 : 0)
          if (value !== null) write(value)
        }
      }
      case 'Tuple': {
        const members = partsOf(inner).map(part => {
          const [name = ''] = part.split(' ', 1)
          return { name, write: this.#writerOf(part.slice(name.length + 1)) }
        })
        return value => {
          for (const { name, write } of members) write(value[name])
        }
      }
      case 'Array': {
        const write = this.#writerOf(inner)
        return (values: readonly unknown[]) => {
          this.#length(values.length)
          for (const value of values) write(value)
        }
      }
      case 'Map': {
        const [writeKey, writeValue] = partsOf(inner).map(part => this.#writerOf(part)) as [Write, Write]
        return (entries: ReadonlyMap<unknown, unknown>) => {
          this.#length(entries.size)
          for (const [key, value] of entries) {
            writeKey(key)
            writeValue(value)
          }
        }
      }
    }
    throw new Error(`no values of type ${declaration} are written`)
  }

  #byte(value: number): void {
    this.#reserve(1)
    this.#bytes[this.#at++] = value
  }

  #integer64(value: number): void {
    this.#reserve(8)
    const high = Math.floor(value / TWO_32)
    this.#bytes.writeUInt32LE(value - high * TWO_32, this.#at)
    this.#at = this.#bytes.writeInt32LE(high, this.#at + 4)
  }

  #text(value: string): void {
    const longest = value.length * 3
    this.#reserve(longest + 5)
    if (longest < 128) {
      // The length takes one byte whatever the characters, so the text can be written right behind it.
      const length = this.#bytes.write(value, this.#at + 1)
      this.#bytes[this.#at] = length
      this.#at += length + 1
      return
    }
    this.#length(Buffer.byteLength(value))
    this.#at += this.#bytes.write(value, this.#at)
  }

  #length(count: number): void {
    this.#reserve(5)
    let rest = count
    for (; rest >= 128; rest >>>= 7) this.#bytes[this.#at++] = (rest & 127) | 128
    this.#bytes[this.#at++] = rest
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

/** The parts of a list whose commas are not within parentheses. */
const partsOf = (list: string): string[] =>
  list.match(/(?:[^,()]|\([^()]*(?:\([^()]*\)[^()]*)*\))+/g)?.map(part => part.trim()) ?? []
