/**
 * Decodes rows of ClickHouse's RowBinary, texts before numbers, into columns.
 *
 * Pure. A row is, of each text, a byte of its length and its bytes, then eight bytes of each number (Float64, little-endian):
 * https://clickhouse.com/docs/interfaces/formats/RowBinary. Why not JSON: infra/README.md.
 */

interface Shape {
  rows: number
  /** Columns. */
  texts: number
  numbers: number
}

const NUMBER_BYTES = 8
/** A longer text has a length of two bytes. */
const TEXT_BYTES_MAX = 127

/** Decodes what arrives in pieces, which may end anywhere. Throws where these are more rows or fewer. */
export async function decodeColumns(pieces: AsyncIterable<Buffer>, shape: Shape) {
  const { rows } = shape
  const texts = Array.from({ length: shape.texts }, (): string[] => [])
  const numbers = Array.from({ length: shape.numbers }, () => new Float64Array(rows))
  const known = new Map<string, string>()
  let rest: Buffer = Buffer.alloc(0)
  let row = 0
  for await (const piece of pieces) {
    const bytes = rest.length > 0 ? Buffer.concat([rest, piece]) : piece
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
    let at = 0
    for (; row < rows && endOfRow(bytes, at, shape) <= bytes.length; row++) {
      for (const column of texts) {
        const end = at + 1 + (bytes[at] as number)
        const text = bytes.toString('utf8', at + 1, end)
        // One of each, however many rows have it.
        if (!known.has(text)) known.set(text, text)
        column.push(known.get(text) as string)
        at = end
      }
      for (const column of numbers) {
        column[row] = view.getFloat64(at, true)
        at += NUMBER_BYTES
      }
    }
    rest = bytes.subarray(at)
  }
  if (row < rows || rest.length > 0)
    throw new Error(`of ${rows} rows ${row} came, and ${rest.length} bytes behind them`)
  return { texts, numbers }
}

/** Where a row ends; NaN where its texts have not arrived. */
function endOfRow(bytes: Buffer, from: number, { texts, numbers }: Shape): number {
  let at = from
  for (let text = 0; text < texts; text++) {
    const length = bytes[at] ?? Number.NaN
    if (length > TEXT_BYTES_MAX) throw new Error(`a text is longer than ${TEXT_BYTES_MAX} bytes`)
    at += 1 + length
  }
  return at + numbers * NUMBER_BYTES
}
