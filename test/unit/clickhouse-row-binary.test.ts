import { expect } from 'chai'
import { decodeColumns } from '#infra/clickhouse/row-binary.ts'

const text = (value: string): Buffer => Buffer.concat([Buffer.from([Buffer.byteLength(value)]), Buffer.from(value)])
function number(value: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleLE(value)
  return bytes
}
const ROWS = [
  ['provider_01', 'EUR', 2 ** 53 - 1, -1],
  ['', 'USD', 0, 0.5],
  [`${'ä'.repeat(63)}\0`, 'USD', 1, 2],
] as const
const BYTES = Buffer.concat(ROWS.flatMap(([a, b, c, d]) => [text(a), text(b), number(c), number(d)]))
const SHAPE = { rows: ROWS.length, texts: 2, numbers: 2 }

function decoded(bytes: Buffer, size: number, rows: number = SHAPE.rows) {
  const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
    bytes.subarray(at * size, (at + 1) * size),
  )
  return decodeColumns(
    (async function* () {
      yield* pieces
    })(),
    { ...SHAPE, rows },
  )
}

const refusalOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'none',
    (error: Error) => error.message,
  )

describe('columns of RowBinary', () => {
  it('are the same in whatever pieces they arrive', async () => {
    for (let size = 1; size <= BYTES.length; size++) {
      const { texts, numbers } = await decoded(BYTES, size)
      expect(texts).to.deep.equal([0, 1].map(column => ROWS.map(row => row[column])))
      expect(numbers.map(column => [...column])).to.deep.equal([2, 3].map(column => ROWS.map(row => row[column])))
    }
  })

  it('are refused where a row lacks, or is cut off, or one more comes', async () => {
    for (const bytes of [BYTES.subarray(0, -1), Buffer.alloc(0)])
      expect(await refusalOf(decoded(bytes, 7))).to.match(/^of 3 rows [02] came/)
    expect(await refusalOf(decoded(BYTES, 7, 2))).to.match(/^of 2 rows 2 came, and \d+ bytes behind them/)
  })

  it('are refused where a text is longer than the byte of its length says', async () => {
    expect(await refusalOf(decoded(Buffer.concat([Buffer.from([128, 1]), BYTES]), 7))).to.include('127 bytes')
  })
})
