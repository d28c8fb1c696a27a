import { expect } from 'chai'
import fc from 'fast-check'
import { loadCatalog } from '#infra/config/catalog.ts'
import { openItemNames } from '#schemas/values/item-name.ts'
import {
  isLedgerExport,
  LEDGER_HEADER,
  readCsv,
  SNAPSHOT_HEADER,
  writeLedgerRows,
  writeSnapshotRows,
} from '#services/portfolios/csv/reader.ts'
import { type CsvScope, guardedCell, unguardedCell } from '#services/portfolios/csv/row.ts'
import type { TransactionInput } from '#services/portfolios/ledger/reader.ts'
import { largeLedger, MALFORMED } from '#test/fixtures/malformed-csv.ts'

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
  /** Rules of the ledger need what is stored; the import tries these. */
  const ofTheLedger = /sell/
  for (const { what, file, row, column = '' } of MALFORMED.filter(one => !ofTheLedger.test(one.what)))
    it(`refuse ${what} at row ${row}`, async () => {
      const content = await read(file)
      if (content.kind !== 'refused') throw new Error(`read as ${content.kind}`)
      expect(content.faults.map(fault => fault.row)).to.deep.equal([row])
      expect(content.faults[0]?.message).to.match(/\w{3}/).and.include(column)
    })

  it('are read with and without a mark, in any order of columns, with any line end, quoted or not', async () => {
    const name = 'AK-47 | Redline (Field-Tested)'
    const rows = ['quantity,note,date,price,type,market_hash_name', `2,"a, ""b""",2026-01-05,12.50,buy,${name}`]
    for (const end of ['\r\n', '\n', '\r']) {
      for (const mark of ['', '\uFEFF']) {
        const content = await read(mark + rows.join(end) + end)
        if (content.kind !== 'ledger') throw new Error(JSON.stringify(content))
        expect(content.rows).to.have.length(1)
        const one = { item_id: 4940, quantity: 2, price: 1250, note: 'a, "b"', currency: 'USD' }
        expect(content.rows[0]).to.include(one)
      }
    }
    const snapshot = await read(`Market_Hash_Name, Quantity\n${name},3\n,\n${name},1`)
    const rowsOf4940 = [3, 1].map(quantity => ({ item_id: 4940, quantity }))
    expect(snapshot).to.deep.equal({ kind: 'snapshot', skipped: 1, rows: rowsOf4940 })
    expect(await read(Buffer.from(`\uFEFFitem_id,quantity\r\n4940,2\r\n`, 'utf16le'))).to.deep.include({
      kind: 'snapshot',
    })
    expect(await read(LEDGER_HEADER)).to.deep.equal({ kind: 'ledger', rows: [], skipped: 0 })
  })

  const good = 'date,type,item_id,quantity,price,currency\n2026-03-01,buy,4940,1,1250,USD\n'
  const habits: [what: string, file: string][] = [
    ['empty columns at the end of the header and of all rows', good.replaceAll('\n', ',,\n')],
    ['empty columns at the end of the header alone', good.replace('\n', ',,\n')],
    ['a first line that names the comma', `sep=,\r\n${good}`],
    ['a first line that names the semicolon', `sep=;\r\n${good.replaceAll(',', ';')}`],
    ['a first line that names the tab, filled up', `\uFEFF"sep=\t"\t\t\n${good.replaceAll(',', '\t')}`],
    ['blank lines', `\n${good.replaceAll('\n', '\n\n,,,,,\n')}`],
    ['line ends of one carriage return', good.replaceAll('\n', '\r')],
    ['names in quotes, capitals and blanks', good.replace('date,type,item_id', '"Date"," TYPE ","ITEM_ID"')],
    ['a direction in capitals', good.replace('buy', 'BUY')],
    ['a currency in small letters between blanks', good.replace('USD', ' usd ')],
    ['whole numbers with a fraction of zero', good.replace('4940,1,', '4940.0,1.0,')],
    ['units with one decimal place', good.replace('1250', '12.5')],
    ['a time behind the day', good.replace('2026-03-01', '2026-03-01 00:00:00')],
    ['an instant', good.replace('2026-03-01', '2026-03-01T00:00:00Z')],
    ['a time without seconds', good.replace('2026-03-01', '2026-03-01 10:30')],
    ['an offset that leaves the day as it is', good.replace('2026-03-01', '2026-03-01T10:30:00.5+02:00')],
  ]
  for (const [what, file] of habits)
    it(`are read with ${what}`, async () => {
      for (const text of [Buffer.from(file), Buffer.from(`\uFEFF${file.replace('\uFEFF', '')}`, 'utf16le')]) {
        const content = await read(text)
        if (content.kind !== 'ledger') throw new Error(JSON.stringify(content))
        const one = { item_id: 4940, type: 'buy', quantity: 1, price: 1250, currency: 'USD', date: '2026-03-01' }
        expect(content.rows).to.have.length(1)
        expect(content.rows[0]).to.include(one)
      }
    })

  it('count rows as a spreadsheet that has read the separator', async () => {
    const content = await read(`sep=;\n${good.replaceAll(',', ';').replace('1250', '1,50')}`)
    expect(content).to.deep.include({ kind: 'refused' })
    expect(content.kind === 'refused' && content.faults.map(({ row }) => row)).to.deep.equal([2])
  })

  it('take the largest price that is stored, and a zero among units', async () => {
    // Fifteen digits used to be the most, and 0 used to be hundredths.
    const rows = ['2026-03-01,buy,4940,1,9007199254740992', '2026-03-01,buy,4940,1,0']
    const content = await read(`date,type,item_id,quantity,price\n${rows.join('\n')}`)
    expect(content.kind === 'ledger' && content.rows.map(({ price }) => price)).to.deep.equal([2 ** 53, 0])
    const units = await read('date,type,item_id,quantity,price\n2026-03-01,buy,4940,1,0\n2026-03-01,buy,4940,1,12.50')
    expect(units.kind === 'ledger' && units.rows.map(({ price }) => price)).to.deep.equal([0, 1250])
  })

  it('are read a little at a time, so that others have their turns', async () => {
    // The parser used to be fed without a pause: a file of 5 MB was one stretch.
    const { file } = largeLedger(2 ** 20, ['AK-47 | Redline (Field-Tested)'])
    let turns = 0
    let isOver = false
    const count = () => {
      turns += 1
      if (!isOver) setImmediate(count)
    }
    setImmediate(count)
    expect(await read(file)).to.have.property('kind', 'ledger')
    isOver = true
    expect(turns).to.be.at.least(2 ** 20 / 2 ** 15)
  })

  it('report every fault of a file, and the unknown names', async () => {
    const content = await read('market_hash_name,quantity\nNope,1\nAK-47 | Redline (Field-Tested),0\nNever,2\n')
    if (content.kind !== 'refused') throw new Error(content.kind)
    expect(content.faults.map(({ row }) => row)).to.deep.equal([2, 3, 4])
    expect(content.unresolved).to.deep.equal(['Nope', 'Never'])
  })

  it('find an item by any spelling of its name, and refuse an id beside the name of another', async () => {
    const name = 'Sticker | Ninjas in Pyjamas | Katowice 2015'
    const readRows = (...rows: string[]) => read(`item_id,market_hash_name,quantity\n${rows.join('\n')}\n`)
    const found = await readRows(`,${name.replace('| ', '|\u00a0')} ,2`, `16981,${name},3`)
    expect(found).to.deep.include({ rows: [2, 3].map(quantity => ({ item_id: 16981, quantity })) })
    const other = await readRows(`16981,${name.replace('Katowice', 'Cologne')},3`)
    expect(other).to.have.property('kind', 'refused')
  })

  const text = fc.oneof(
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 60 }),
    fc.constantFrom(
      ...[
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
      ],
      ...["'\n", 'sep=;', '\uFFFD', '\uFEFF', '\u00A0x\u3000', '💥'.repeat(30)],
    ),
  )
  const clean = text.filter(one => one.isWellFormed() && !one.includes('\0') && [...one].length <= 60)
  const input: fc.Arbitrary<TransactionInput> = fc.record({
    item_id: fc.constantFrom(...catalog.slice(0, 8_000).map(item => item.item_id)),
    type: fc.constantFrom('buy', 'sell'),
    quantity: fc.integer({ min: 1, max: 1_000_000 }),
    price: fc.oneof(fc.maxSafeNat(), fc.constantFrom(0, 2 ** 53)),
    currency: fc.constantFrom('USD', 'EUR', 'BTC'),
    date: fc
      .integer({ min: 0, max: 9_000 })
      .map(day => new Date(Date.UTC(2000, 0, 1 + day)).toISOString().slice(0, 10)),
    fee_amount: fc.option(fc.maxSafeNat()),
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
        expect(content.rows.map(({ row: _, ...one }) => one)).to.deep.equal(inputs)
      }),
      { numRuns: 300 },
    )
  })

  it('export every name of the catalog to what imports as the same holdings', async () => {
    // An entry carries the units of a whole ledger: a million used to be the most that an import took.
    const rows = catalog.map((item, i) => ({ ...item, quantity: 1 + (i % 9) * 10 ** 10 }))
    const content = await read(SNAPSHOT_HEADER + writeSnapshotRows(rows))
    const holdings = rows.map(({ item_id, quantity }) => ({ item_id, quantity }))
    expect(content).to.deep.equal({ kind: 'snapshot', skipped: 0, rows: holdings })
  })

  it('are known to be exports of ledgers by their first line, with a mark and without', () => {
    const begins = (text: string) => isLedgerExport(Buffer.from(text))
    expect([LEDGER_HEADER, `\uFEFF${LEDGER_HEADER}`].map(begins)).to.deep.equal([true, true])
    expect([good, `\n${LEDGER_HEADER}`].map(begins)).to.deep.equal([false, false])
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
