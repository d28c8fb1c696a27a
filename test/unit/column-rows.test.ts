/**
 * Rows of array columns against bytes that are written value by value, and against what is no whole row.
 *
 * Reads and writes memory only; rows are random, and lie at random places of a buffer.
 */
import { expect } from 'chai'
import fc from 'fast-check'
import { decodeRows } from '#infra/clickhouse/column-rows.ts'

const SHAPE = { id: 'number', name: 'text', values: 'numbers', names: 'texts' } as const

const length = (value: number): number[] => (value < 128 ? [value] : [(value % 128) + 128, ...length(value >> 7)])
const text = (value: string): number[] => [...length(Buffer.byteLength(value)), ...Buffer.from(value)]
const float = (value: number): number[] => {
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleLE(value)
  return [...bytes]
}
const row = fc.record<Row>({
  id: fc.maxSafeInteger(),
  name: fc.string({ unit: 'grapheme' }),
  values: fc.array(fc.maxSafeInteger(), { maxLength: 300 }),
  names: fc.array(fc.string({ maxLength: 200 }), { maxLength: 200 }),
})
interface Row {
  id: number
  name: string
  values: number[]
  names: string[]
}

const bytesOf = (rows: readonly Row[]): Buffer =>
  Buffer.from(
    rows.flatMap(({ id, name, values, names }) => [
      ...[...float(id), ...text(name)],
      ...[...length(values.length), ...values.flatMap(float)],
      ...[...length(names.length), ...names.flatMap(text)],
    ]),
  )

describe('rows of array columns', () => {
  it('are what was written, wherever in memory it lies', () => {
    fc.assert(
      fc.property(fc.array(row, { maxLength: 4 }), fc.nat(9), (rows, before) => {
        const bytes = Buffer.concat([Buffer.alloc(before), bytesOf(rows)]).subarray(before)
        const decoded = decodeRows(bytes, SHAPE).map(each => ({ ...each, values: [...each.values] }))
        expect(decoded).to.deep.equal(rows)
      }),
      { numRuns: 200 },
    )
  })

  it('end whole, or are refused', () => {
    fc.assert(
      fc.property(row, fc.nat(), (one, cut) => {
        const bytes = bytesOf([one])
        const part = bytes.subarray(0, 1 + (cut % (bytes.length - 1)))
        expect(() => decodeRows(part, SHAPE)).to.throw('ends within a row')
      }),
      { numRuns: 200 },
    )
  })
})
