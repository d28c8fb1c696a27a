/**
 * Columns in ClickHouse's Native form against blocks that are written value by value, and against what is no whole block.
 *
 * Reads and writes memory only; blocks are random, and lie at random places of a buffer. What ClickHouse itself writes is
 * read by the tests of candles and charts.
 */
import { expect } from 'chai'
import fc from 'fast-check'
import { decodeColumns } from '#infra/clickhouse/native-columns.ts'

const SHAPE = { name: 'text', value: 'number', kind: 'text' } as const

interface Row {
  name: string
  value: number
  kind: string
}

const length = (value: number): number[] => (value < 128 ? [value] : [(value % 128) + 128, ...length(value >> 7)])
const text = (value: string): number[] => [...length(Buffer.byteLength(value)), ...Buffer.from(value)]
const bytesOf = (size: number, write: (bytes: Buffer) => void): number[] => {
  const bytes = Buffer.alloc(size)
  write(bytes)
  return [...bytes]
}
const count = (value: number): number[] => bytesOf(8, bytes => bytes.writeBigUInt64LE(BigInt(value)))

/** A column of few texts, as indexes of `width` bytes into a dictionary. */
function lookedUp(texts: readonly string[], width: 1 | 2 | 4): number[] {
  const dictionary = [...new Set(texts)]
  const hasOwnKeys = 1 << 9
  return [
    ...[...count(1), ...count(hasOwnKeys + { 1: 0, 2: 1, 4: 2 }[width])],
    ...[...count(dictionary.length), ...dictionary.flatMap(text), ...count(texts.length)],
    ...texts.flatMap(each => bytesOf(width, bytes => bytes.writeUIntLE(dictionary.indexOf(each), 0, width))),
  ]
}

function blockOf(rows: readonly Row[], width: 1 | 2 | 4): number[] {
  const isEmpty = rows.length === 0
  return [
    ...[...length(3), ...length(rows.length)],
    ...[...text('name'), ...text('String'), ...rows.flatMap(({ name }) => text(name))],
    ...[...text('value'), ...text('Float64')],
    ...rows.flatMap(({ value }) => bytesOf(8, bytes => bytes.writeDoubleLE(value))),
    ...[...text('kind'), ...text('LowCardinality(String)')],
    ...(isEmpty
      ? []
      : lookedUp(
          rows.map(({ kind }) => kind),
          width,
        )),
  ]
}

const row = fc.record<Row>({
  name: fc.string({ unit: 'grapheme', maxLength: 200 }),
  value: fc.maxSafeInteger(),
  kind: fc.constantFrom('a', 'bb', 'ccc', ''),
})
const block = fc.tuple(fc.array(row, { maxLength: 200 }), fc.constantFrom(1, 2, 4))

describe('columns of ClickHouse', () => {
  it('are what was written, in however many blocks and wherever in memory it lies', () => {
    fc.assert(
      fc.property(fc.array(block, { maxLength: 4 }), fc.nat(9), (blocks, before) => {
        const written = blocks.flatMap(([rows, width]) => blockOf(rows, width as 1 | 2 | 4))
        const columns = decodeColumns(Buffer.from([...Array(before).fill(0), ...written]).subarray(before), SHAPE)
        const rows = columns.name.map((name, at) => ({ name, value: columns.value[at], kind: columns.kind[at] }))
        expect(rows).to.deep.equal(blocks.flatMap(([rows]) => rows))
        expect(columns.value).to.have.length(rows.length)
      }),
      { numRuns: 100 },
    )
  })

  it('end with a whole block, or are refused', () => {
    fc.assert(
      fc.property(fc.array(row, { minLength: 1, maxLength: 20 }), fc.nat(), (rows, cut) => {
        const bytes = Buffer.from(blockOf(rows, 1))
        const part = bytes.subarray(0, 1 + (cut % (bytes.length - 1)))
        expect(() => decodeColumns(part, SHAPE)).to.throw('ends within a block')
      }),
      { numRuns: 200 },
    )
  })

  it('are refused when they are others than those asked for, or no columns at all', () => {
    const bytes = Buffer.from(blockOf([{ name: 'a', value: 1, kind: 'b' }], 1))
    expect(() => decodeColumns(bytes, { name: 'text', value: 'number' })).to.throw('3 columns instead of 2')
    expect(() => decodeColumns(bytes, { ...SHAPE, value: 'text' })).to.throw('the column value of Float64')
    const failed = Buffer.concat([bytes, Buffer.from('Code: 241. DB::Exception: Memory limit exceeded')])
    expect(() => decodeColumns(failed, SHAPE)).to.throw('instead of 3')
  })
})
