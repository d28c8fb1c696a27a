/**
 * Rows of array columns as ClickHouse's RowBinary bytes, decoded without looking at single values.
 *
 * Reads memory only. Invariant: the bytes are whole rows of the shape, or the decoding throws; a server that fails half way
 * writes its error behind the rows, which is then not taken for one. Numbers travel as Float64, exact below 2^53 as
 * all stored amounts are: an array of them is copied in one piece, where 15,000 parts as JSON cost the server and the client
 * 10 ms each.
 */

/** What a column holds: `number` and `numbers` are Float64 and Array(Float64), `text` and `texts` the same of String. */
export type ColumnKind = 'number' | 'numbers' | 'text' | 'texts'

/** The columns of a query in the order in which it selects them. */
export type RowShape = Readonly<Record<string, ColumnKind>>

/** A row of a shape. */
export type RowOf<S extends RowShape> = {
  [Name in keyof S]: { number: number; numbers: Float64Array; text: string; texts: string[] }[S[Name]]
}

const FLOAT_BYTES = 8

/** Decodes whole rows; throws when the bytes are anything else. */
export function decodeRows<S extends RowShape>(bytes: Buffer, shape: S): RowOf<S>[] {
  const columns = Object.entries(shape)
  const rows: RowOf<S>[] = []
  let at = 0

  const take = (length: number): number => {
    const start = at
    at += length
    if (at > bytes.length) throw new Error('the answer of ClickHouse ends within a row')
    return start
  }
  /** LEB128, as lengths are written. */
  const length = (): number => {
    let value = 0
    for (let scale = 1; ; scale *= 128) {
      const byte = bytes[take(1)] as number
      value += (byte & 127) * scale
      if (byte < 128) return value
    }
  }
  const text = (): string => {
    const size = length()
    const start = take(size)
    return bytes.toString('utf8', start, start + size)
  }
  const numbers = (): Float64Array => {
    const size = length() * FLOAT_BYTES
    const start = bytes.byteOffset + take(size)
    // A copy, since a Float64Array must begin at a multiple of its size.
    return new Float64Array(bytes.buffer.slice(start, start + size))
  }
  const texts = (): string[] => Array.from({ length: length() }, text)
  const read = { number: () => bytes.readDoubleLE(take(FLOAT_BYTES)), numbers, text, texts }

  while (at < bytes.length)
    rows.push(Object.fromEntries(columns.map(([name, kind]) => [name, read[kind]()])) as RowOf<S>)
  return rows
}
