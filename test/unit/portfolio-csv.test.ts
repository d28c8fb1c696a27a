/**
 * Portfolio files: what is refused and where, what is read, and what an export becomes when it is read again.
 */
import { expect } from 'chai'
import fc from 'fast-check'
import { loadCatalog } from '#infra/config/catalog.ts'
import { openItemNames } from '#schemas/values/item-name.ts'
import { guardedCell, unguardedCell } from '#services/portfolios/csv/columns.ts'
import {
  LEDGER_HEADER,
  readCsv,
  SNAPSHOT_HEADER,
  writeLedgerRows,
  writeSnapshotRows,
} from '#services/portfolios/csv/reader.ts'
import type { CsvScope } from '#services/portfolios/csv/row.ts'
import type { TransactionInput } from '#services/portfolios/ledger/reader.ts'
import { MALFORMED } from '#test/fixtures/malformed-csv.ts'

const catalog = loadCatalog()
const byId = new Map(catalog.map(item => [item.item_id, item]))
const scope: CsvScope = {
  idOf: openItemNames(catalog).idOf,
  nameOf: id => byId.get(id)?.market_hash_name,
  isCurrency: code => ['USD', 'EUR', 'BTC'].includes(code),
  latestDay: '2026-06-01',
}
const read = (text: string | Buffer) => readCsv(Buffer.from(text as string), scope)

describe('portfolio files', () => {
  it('are tried with more than fifty that are malformed', () => expect(MALFORMED.length).to.be.at.least(50))

  /** Rules of the ledger need what is stored; the import tries these. */
  const ofTheLedger = /sell/
  for (const { what, file, row } of MALFORMED.filter(one => !ofTheLedger.test(one.what)))
    it(`refuse ${what} at row ${row}`, async () => {
      const content = await read(file)
      if (content.kind !== 'refused') throw new Error(`read as ${content.kind}`)
      expect(content.faults.map(fault => fault.row)).to.deep.equal([row])
      expect(content.faults[0]?.message).to.match(/\w{3}/)
    })

  it('are read with and without a mark, in any order of columns, with any line end, quoted or not', async () => {
    const name = 'AK-47 | Redline (Field-Tested)'
    const rows = ['quantity,note,date,price,type,market_hash_name', `2,"a, ""b""",2026-01-05,12.50,buy,${name}`]
    for (const end of ['\r\n', '\n', '\r']) {
      for (const mark of ['', '\uFEFF']) {
        const content = await read(mark + rows.join(end) + end)
        if (content.kind !== 'ledger') throw new Error(JSON.stringify(content))
        expect(content.rows).to.have.length(1)
        expect(content.rows[0]?.input).to.include({
          item_id: 4940,
          quantity: 2,
          price: 1250,
          note: 'a, "b"',
          currency: 'USD',
        })
      }
    }
    const snapshot = await read(`Market_Hash_Name, Quantity\n${name},3\n,\n${name},1`)
    expect(snapshot).to.deep.equal({
      kind: 'snapshot',
      skipped: 1,
      rows: [
        { item_id: 4940, quantity: 3 },
        { item_id: 4940, quantity: 1 },
      ],
    })
    expect(await read(Buffer.from(`\uFEFFitem_id,quantity\r\n4940,2\r\n`, 'utf16le'))).to.deep.include({
      kind: 'snapshot',
    })
    expect(await read(LEDGER_HEADER)).to.deep.equal({ kind: 'ledger', rows: [], skipped: 0 })
  })

  it('report every fault of a file, and the unknown names', async () => {
    const content = await read('market_hash_name,quantity\nNope,1\nAK-47 | Redline (Field-Tested),0\nNever,2\n')
    if (content.kind !== 'refused') throw new Error(content.kind)
    expect(content.faults.map(({ row }) => row)).to.deep.equal([2, 3, 4])
    expect(content.unresolved).to.deep.equal(['Nope', 'Never'])
  })

  it('find an item by any spelling of its name, and refuse an id beside the name of another', async () => {
    const rows = [
      ',Sticker |\u00a0Ninjas in Pyjamas | Katowice 2015 ,2',
      '16981,Sticker | Ninjas in Pyjamas | Katowice 2015,3',
    ]
    expect(await read(`item_id,market_hash_name,quantity\n${rows.join('\n')}\n`)).to.deep.include({
      kind: 'snapshot',
      rows: [2, 3].map(quantity => ({ item_id: 16981, quantity })),
    })
    const other = await read('item_id,market_hash_name,quantity\n16981,Sticker | Ninjas in Pyjamas | Cologne 2015,3\n')
    expect(other).to.have.property('kind', 'refused')
  })

  const text = fc.oneof(
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 60 }),
    fc.constantFrom(
      '=1+1',
      "'=x",
      '@SUM(A1)',
      '-',
      '+1',
      '\t=1',
      ' =1',
      "''+",
      ' ',
      '\r',
      '\n',
      'a\rb',
      '"',
      ',',
      '＝1',
      "'plain",
      '\uFFFD',
    ),
  )
  const clean = text.filter(one => one.isWellFormed() && !one.includes('\0') && [...one].length <= 60)
  const input: fc.Arbitrary<TransactionInput> = fc.record({
    item_id: fc.constantFrom(...catalog.slice(0, 8_000).map(item => item.item_id)),
    type: fc.constantFrom('buy', 'sell'),
    quantity: fc.integer({ min: 1, max: 1_000_000 }),
    price: fc.integer({ min: 0, max: 10 ** 12 }),
    currency: fc.constantFrom('USD', 'EUR', 'BTC'),
    date: fc
      .integer({ min: 0, max: 9_000 })
      .map(day => new Date(Date.UTC(2000, 0, 1 + day)).toISOString().slice(0, 10)),
    fee_amount: fc.option(fc.integer({ min: 0, max: 10 ** 9 })),
    fee_percentage: fc.option(fc.integer({ min: 1, max: 10 ** 8 }).map(millionths => millionths / 10 ** 6)),
    marketplace: fc.option(clean),
    note: fc.option(clean),
  })

  it('export to what imports as the same ledger', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(input, { maxLength: 20 }), async inputs => {
        const rows = inputs.map(one => {
          const item = byId.get(one.item_id)
          return { ...one, market_hash_name: item?.market_hash_name ?? '', phase: item?.phase ?? null }
        })
        const content = await read(LEDGER_HEADER + writeLedgerRows(rows))
        if (content.kind !== 'ledger') throw new Error(JSON.stringify(content))
        expect(content.rows.map(one => one.input)).to.deep.equal(inputs)
      }),
      { numRuns: 300 },
    )
  })

  it('export every name of the catalog to what imports as the same holdings', async () => {
    const rows = catalog.map(({ market_hash_name, phase, item_id }, i) => ({
      market_hash_name,
      phase,
      item_id,
      quantity: 1 + (i % 9),
    }))
    const content = await read(SNAPSHOT_HEADER + writeSnapshotRows(rows))
    expect(content).to.deep.equal({
      kind: 'snapshot',
      skipped: 0,
      rows: rows.map(({ item_id, quantity }) => ({ item_id, quantity })),
    })
  })

  it('hold no cell that a spreadsheet would compute, and give every text back', () => {
    fc.assert(
      fc.property(text, one => {
        const cell = guardedCell(one)
        expect(unguardedCell(cell)).to.equal(one)
        expect(cell).not.to.match(/^\s*[=+\-@]/)
        expect(cell).not.to.match(/^[\t\r\n]/)
      }),
      { numRuns: 2_000 },
    )
  })
})
