/** What ClickHouse itself writes is read by the tests of candles and charts. */
import { expect } from 'chai'
import fc from 'fast-check'
import { type ColumnsOf, decodeColumns } from '#infra/clickhouse/native-columns.ts'
import { atOnce } from '#infra/runtime/turns.ts'

/** Least and most, as far as a number is exact. */
const INTEGERS = {
  Bool: [0, 1],
  UInt8: [0, 255],
  UInt16: [0, 2 ** 16 - 1],
  UInt32: [0, 2 ** 32 - 1],
  UInt64: [0, Number.MAX_SAFE_INTEGER],
  Int32: [-(2 ** 31), 2 ** 31 - 1],
  Int64: [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
  Date: [0, 2 ** 16 - 1],
  DateTime: [0, 2 ** 32 - 1],
} as const
const SHAPE = {
  name: 'text',
  value: 'number',
  kind: 'text',
  edge: { first: 'number', second: 'number' },
  falls: 'map',
} as const

interface Row {
  name: string
  value: number
  kind: string
  edge: { first: number; second: number }
  falls: [number, number][]
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

const writers: Record<keyof typeof INTEGERS | 'Float64', (value: number) => number[]> = {
  Bool: value => [value],
  UInt8: value => [value],
  UInt16: value => bytesOf(2, bytes => bytes.writeUInt16LE(value)),
  UInt32: value => bytesOf(4, bytes => bytes.writeUInt32LE(value)),
  UInt64: count,
  Int32: value => bytesOf(4, bytes => bytes.writeInt32LE(value)),
  Int64: value => bytesOf(8, bytes => bytes.writeBigInt64LE(BigInt(value))),
  Float64: value => bytesOf(8, bytes => bytes.writeDoubleLE(value)),
  Date: value => bytesOf(2, bytes => bytes.writeUInt16LE(value)),
  DateTime: value => bytesOf(4, bytes => bytes.writeUInt32LE(value)),
}

function blockOf(rows: readonly Row[], width: 1 | 2 | 4): number[] {
  const isEmpty = rows.length === 0
  let entries = 0
  return [
    ...[...length(5), ...length(rows.length)],
    ...[...text('name'), ...text('String'), ...rows.flatMap(({ name }) => text(name))],
    ...[...text('value'), ...text('Float64')],
    ...rows.flatMap(({ value }) => writers.Float64(value)),
    ...[...text('kind'), ...text('LowCardinality(String)')],
    ...(isEmpty
      ? []
      : lookedUp(
          rows.map(({ kind }) => kind),
          width,
        )),
    ...[...text('edge'), ...text('SimpleAggregateFunction(min, Tuple(first Int64, second Int32))')],
    ...rows.flatMap(({ edge }) => writers.Int64(edge.first)),
    ...rows.flatMap(({ edge }) => writers.Int32(edge.second)),
    ...[...text('falls'), ...text('Map(UInt64, UInt32)')],
    ...rows.flatMap(({ falls }) => {
      entries += falls.length
      return count(entries)
    }),
    ...rows.flatMap(({ falls }) => falls.flatMap(([key]) => count(key))),
    ...rows.flatMap(({ falls }) => falls.flatMap(([, units]) => writers.UInt32(units))),
  ]
}

const row = fc.record<Row>({
  name: fc.string({ unit: 'grapheme', maxLength: 200 }),
  value: fc.maxSafeInteger(),
  kind: fc.constantFrom('a', 'bb', 'ccc', ''),
  edge: fc.record({ first: fc.maxSafeInteger(), second: fc.integer() }),
  falls: fc.array(fc.tuple(fc.maxSafeNat(), fc.nat()), { maxLength: 3 }),
})
const block = fc.tuple(fc.array(row, { maxLength: 100 }), fc.constantFrom(1, 2, 4))

/** Reads the rows back, each member from its own column. */
const rowsOf = ({ name, value, kind, edge, falls }: ColumnsOf<typeof SHAPE>): Row[] =>
  name.map((text, at) => {
    const [from, to] = [falls.ends[at - 1] ?? 0, falls.ends[at] as number]
    return {
      name: text,
      value: value[at] as number,
      kind: kind[at] as string,
      edge: { first: edge.first[at] as number, second: edge.second[at] as number },
      falls: Array.from(falls.keys.slice(from, to), (key, entry) => [key, falls.values[from + entry] as number]),
    }
  })

describe('columns of ClickHouse', () => {
  it('are what was written, in however many blocks and wherever in memory it lies', () => {
    fc.assert(
      fc.property(fc.array(block, { maxLength: 4 }), fc.nat(9), (blocks, before) => {
        const written = blocks.flatMap(([rows, width]) => blockOf(rows, width as 1 | 2 | 4))
        const columns = atOnce(
          decodeColumns(Buffer.from([...Array(before).fill(0), ...written]).subarray(before), SHAPE),
        )
        const rows = blocks.flatMap(([rows]) => rows)
        expect(rowsOf(columns)).to.deep.equal(rows)
        expect(columns.value).to.have.length(rows.length)
      }),
      { numRuns: 100 },
    )
  })

  for (const [type, [min, max]] of Object.entries(INTEGERS)) {
    it(`of ${type} are numbers`, () => {
      fc.assert(
        fc.property(fc.array(fc.integer({ min, max }), { maxLength: 50 }), values => {
          const head = [...length(1), ...length(values.length), ...text('n'), ...text(type)]
          const { n } = atOnce(
            decodeColumns(Buffer.from([...head, ...values.flatMap(writers[type as keyof typeof INTEGERS])]), {
              n: 'number',
            }),
          )
          expect([...n]).to.deep.equal(values)
        }),
      )
    })
  }

  it('end with a whole block, or are refused', () => {
    fc.assert(
      fc.property(fc.array(row, { minLength: 1, maxLength: 20 }), fc.nat(), (rows, cut) => {
        const bytes = Buffer.from(blockOf(rows, 1))
        const part = bytes.subarray(0, 1 + (cut % (bytes.length - 1)))
        expect(() => atOnce(decodeColumns(part, SHAPE))).to.throw('ends within a block')
      }),
      { numRuns: 200 },
    )
  })

  it('are refused when they are others than those asked for, or no columns at all', () => {
    const bytes = Buffer.from(
      blockOf([{ name: 'a', value: 1, kind: 'b', edge: { first: 1, second: 2 }, falls: [] }], 1),
    )
    expect(() => atOnce(decodeColumns(bytes, { name: 'text', value: 'number' }))).to.throw('5 columns instead of 2')
    expect(() => atOnce(decodeColumns(bytes, { ...SHAPE, value: 'text' }))).to.throw('the column value of Float64')
    expect(() => atOnce(decodeColumns(bytes, { ...SHAPE, edge: { first: 'number', third: 'number' } }))).to.throw(
      'column edge',
    )
    expect(() => atOnce(decodeColumns(bytes, { ...SHAPE, edge: { first: 'number' } }))).to.throw(
      'the column edge of Simple',
    )
    expect(() => atOnce(decodeColumns(bytes, { ...SHAPE, falls: 'number' }))).to.throw('the column falls of Map')
    const failed = Buffer.concat([bytes, Buffer.from('Code: 241. DB::Exception: Memory limit exceeded')])
    expect(() => atOnce(decodeColumns(failed, SHAPE))).to.throw('instead of 5')
  })
})
