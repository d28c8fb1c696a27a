import { expect } from 'chai'
import { openPortfolioStore } from '#services/portfolios/commands.ts'
import { importCsv } from '#services/portfolios/csv/commands.ts'
import { LEDGER_HEADER, writeLedgerRows } from '#services/portfolios/csv/reader.ts'
import { readLedger, readLedgerPosition, type TransactionInput } from '#services/portfolios/ledger/reader.ts'
import { type ApiScenario, openApiScenario } from '#test/fixtures/api-scenario.ts'
import { largeLedger, MALFORMED } from '#test/fixtures/malformed-csv.ts'
import type { Answer } from '#test/harness/scenario.ts'
import { type SeededRandom, seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'

const MAX_BYTES = 5 * 1024 * 1024

const LARGE_ROWS = 50_000
/** What spreadsheets, parsers and encodings may change. */
const PIECES = [
  ...['"', '""', ',', ';', '\n', '\r\n', '\r', '\t', ' ', '\u00A0', "'", '=1+1', '-', 'sep=;', '\uFEFF', '\uFFFD'],
  ...['💥', 'é'],
]

/** A ledger whose texts and amounts are as unusual as may be, and whose sells come before the buys of their day. */
function unusualLedger(random: SeededRandom, itemIds: readonly number[], rows: number): TransactionInput[] {
  const text = () => Array.from({ length: random.integer(1, 8) }, () => random.pick(PIECES)).join('')
  const amount = () => random.pick([0, 1, 1250, 2 ** 53 - 1, 2 ** 53, random.integer(0, 10 ** 9)])
  const maybe = <T>(value: T): T | null => (random.chance(0.6) ? value : null)
  const one = (type: 'buy' | 'sell', item_id: number, quantity: number, date: string): TransactionInput => ({
    item_id,
    type,
    quantity,
    date,
    price: amount(),
    currency: random.pick(['USD', 'EUR', 'BTC', 'JPY']),
    fee_amount: maybe(amount()),
    fee_percentage: maybe(random.integer(0, 10 ** 8) / 10 ** 6),
    marketplace: maybe(text()),
    note: maybe(text()),
  })
  return Array.from({ length: rows / 2 }, () => {
    const date = new Date(Date.UTC(2000, 0, 1 + random.integer(0, 9_000))).toISOString().slice(0, 10)
    const [itemId, bought] = [random.pick(itemIds), random.integer(1, 1_000_000)]
    return [one('sell', itemId, random.integer(1, bought), date), one('buy', itemId, bought, date)]
  }).flat()
}

describe('portfolio files through the API', () => {
  const platform = useServers()
  let scenario: ApiScenario
  before('a market', async () => {
    scenario = await openApiScenario(platform, 5)
  })
  after('end of the market', () => scenario.close())

  const newPortfolio = async (): Promise<string> =>
    (await scenario.ask('/v1/portfolio', { method: 'POST', body: { name: 'files' } })).body.id
  const form = (file: string | Buffer, field = 'file'): Buffer =>
    Buffer.concat([
      Buffer.from(
        `--b\r\ncontent-disposition: form-data; name="${field}"; filename="f.csv"\r\ncontent-type: text/csv\r\n\r\n`,
      ),
      Buffer.from(file as string),
      Buffer.from('\r\n--b--\r\n'),
    ])
  const upload = (id: string, body: Buffer, headers: Record<string, string> = {}): Promise<Answer> =>
    scenario.ask(`/v1/portfolio/${id}/import/csv`, {
      method: 'POST',
      body,
      headers: { 'content-type': 'multipart/form-data; boundary=b', ...headers },
    })
  const read = async (id: string, what: string) => (await scenario.ask(`/v1/portfolio/${id}/${what}`)).body
  const exported = async (id: string, type: string) =>
    (await scenario.ask(`/v1/portfolio/${id}/export?type=${type}`)).text

  it('each file whose ledger sells what was not held is refused with its row, and nothing is stored', async () => {
    const id = await newPortfolio()
    for (const { what, file, row } of MALFORMED.filter(({ what: of }) => /sell/.test(of))) {
      const { status, body } = await upload(id, form(file))
      expect([status, body.code, body.errors.length, body.errors[0].row], what).to.deep.equal([
        ...[422, 'VALIDATION_ERROR', 1, row],
      ])
      expect(body.detail[0].loc, what).to.deep.equal(['body', 'file', row])
      expect(body, what).to.include({ imported: 0, skipped: 0 })
    }
    expect([await read(id, 'transactions'), await read(id, 'items')]).to.deep.equal([[], []])
  })

  it('a ledger goes out and comes in again as the same portfolio', async () => {
    const id = await newPortfolio()
    const [phase] = scenario.items.phases
    const rows = [
      'date,type,item_id,quantity,price,currency,fee_amount,fee_percentage,marketplace,note',
      `2026-01-05,buy,${scenario.items.full.item_id},5,12.50,EUR,0.30,2.5,=cmd|' /C calc'!A1,"two\r\nlines, ""quoted"""`,
      `2026-01-05,sell,${scenario.items.full.item_id},2,13.00,USD,,,,-1`,
      `2025-12-31,buy,${phase?.item_id},1,99999.99,USD,,,provider_02,`,
    ]
    const stored = await upload(id, form(`\uFEFF${rows.join('\r\n')}`))
    const result = { imported: 3, skipped: 0, unresolved: [], errors: [], price_unit: 'minor' }
    expect([stored.status, stored.body]).to.deep.equal([200, result])
    const file = await exported(id, 'transactions')
    expect(file).not.to.match(/(^|,|\n)"?[=+\-@]/)
    const copy = await newPortfolio()
    expect((await upload(copy, form(file))).body.imported).to.equal(3)
    expect(await exported(copy, 'transactions')).to.equal(file)
    const marked = await fetch(`${scenario.roles.baseUrl}/v1/portfolio/${copy}/export?bom=true`, {
      headers: { authorization: `Bearer ${scenario.keys.quant}` },
    })
    expect(Buffer.from(await marked.arrayBuffer()).toString()).to.equal(`\uFEFF${file}`)
    const snapshot = await newPortfolio()
    expect((await upload(snapshot, form(await exported(id, 'items')))).body.imported).to.equal(2)
    expect(await exported(snapshot, 'items')).to.equal(await exported(id, 'items'))
    expect((await read(snapshot, 'items'))[0]).to.include({ source: 'csv' })
  })

  async function newLedger(ledger: readonly TransactionInput[]): Promise<string> {
    const portfolioId = await newPortfolio()
    const [owner] = await scenario.database.rows<{ account_id: string }>(
      'SELECT account_id FROM portfolios WHERE id = $1',
      [portfolioId],
    )
    const limits = { now: Date.now(), entriesMax: 10_000, transactionsMax: 1_000_000 }
    const scope = { accountId: owner?.account_id ?? '', portfolioId, ...limits }
    const rows = ledger.map(input => ({ row: 0, ...input }))
    await importCsv(openPortfolioStore(scenario.database), scope, { kind: 'ledger', rows, skipped: 0 })
    return portfolioId
  }
  const COLUMNS = 'item_id, type, quantity, price, currency, date, fee_amount, fee_percentage, marketplace, note'
  /** All of a ledger in an order, and what it adds up to, by the store. */
  const storedLedger = async (id: string, order: string) => [
    await scenario.database.rows(
      `SELECT ${COLUMNS} FROM portfolio_transactions WHERE portfolio_id = $1 ORDER BY ${order}`,
      [id],
    ),
    await scenario.database.rows(
      'SELECT item_id, added_quantity, ledger_quantity FROM portfolio_entries WHERE portfolio_id = $1 ORDER BY item_id',
      [id],
    ),
  ]
  const itemIds = () => scenario.catalog.map(item => item.item_id)

  it(`a ledger of ${LARGE_ROWS} rows, too large for any other file, comes in again as the same`, async () => {
    // Of what an export wrote an import used to refuse more than 5 MB.
    const id = await newLedger(unusualLedger(seededRandom('a large ledger'), itemIds(), LARGE_ROWS))
    const file = await exported(id, 'transactions')
    expect(Buffer.byteLength(file)).to.be.greaterThan(MAX_BYTES)
    const copy = await newPortfolio()
    const { status, body } = await upload(copy, form(file))
    expect([status, body.imported]).to.deep.equal([200, LARGE_ROWS])
    expect(await storedLedger(copy, 'date, sequence')).to.deep.equal(await storedLedger(id, 'date, sequence'))
    const other = await upload(copy, form(file.replace('item_id,phase', 'phase,item_id')))
    expect([other.status, other.body.code]).to.deep.equal([413, 'PAYLOAD_TOO_LARGE'])
  })

  it('each part of a ledger comes in behind those before it, and all of them are the ledger', async () => {
    const rows = unusualLedger(seededRandom('a ledger in parts'), itemIds().slice(0, 5), 600)
    // Half of it is of one day, so that parts end within it.
    const id = await newLedger(rows.map((row, i) => ({ ...row, date: i % 4 < 2 ? '2020-02-29' : row.date })))
    const copy = await newPortfolio()
    const items = new Map(scenario.catalog.map(item => [item.item_id, item]))
    for (let before = 0; before < rows.length; before += 100) {
      const after = before === 0 ? undefined : await readLedgerPosition(scenario.database, id, before)
      const page = { portfolioId: id, after, order: 'buys', limit: 100 } as const
      const { records } = await readLedger(scenario.database, page)
      const named = records.map(one => {
        const { market_hash_name = '', phase = null } = items.get(one.item_id) ?? {}
        return { ...one, market_hash_name, phase }
      })
      const { status, text } = await upload(copy, form(LEDGER_HEADER + writeLedgerRows(named)))
      expect(status, text).to.equal(200)
    }
    const order = 'date, type, sequence'
    expect(await storedLedger(copy, order)).to.deep.equal(await storedLedger(id, order))
  })

  it('an export of several parts gives none of them unasked, and one of one part has no second', async () => {
    const id = await newPortfolio()
    const ask = (part: string) => scenario.ask(`/v1/portfolio/${id}/export?${part}`)
    const whole = await ask('part=1')
    expect([whole.status, whole.headers.get('x-export-parts')]).to.deep.equal([200, '1'])
    expect((await ask('part=2')).body.detail[0]).to.deep.include({ type: 'less_than_equal', loc: ['query', 'part'] })
    await scenario.database.rows(
      `INSERT INTO portfolio_transactions (portfolio_id, item_id, type, quantity, price, currency, date, note, created_at, updated_at)
      SELECT $1, $2, 'buy', 1, 1, 'USD', date '2020-01-01' + n % 100, repeat('💥', 1000), now(), now() FROM generate_series(1, 16700) n`,
      [id, scenario.items.full.item_id],
    )
    await scenario.database.rows('UPDATE portfolios SET transaction_count = 16700 WHERE id = $1', [id])
    const { status, body } = await ask('')
    expect([status, body.detail[0].type, body.detail[0].ctx]).to.deep.equal([422, 'missing', { le: 2 }])
    const second = await ask('part=2')
    expect(second.headers.get('content-disposition')).to.include('transactions-2-of-2.csv')
    expect(second.text.startsWith(LEDGER_HEADER)).to.equal(true)
    expect(second.text.split('\r\n')).to.have.length(2 + 4_200)
  })

  it('a file is imported once, however often it is sent with one key', async () => {
    const id = await newPortfolio()
    const file = form(`item_id,quantity\n${scenario.items.full.item_id},4\n`)
    const headers = { 'idempotency-key': 'file-1' }
    const answers = await Promise.all(Array.from({ length: 4 }, () => upload(id, file, headers)))
    expect(new Set(answers.map(({ status, text }) => status + text))).to.have.length(1)
    expect(await read(id, 'items')).to.have.length(1)
    expect((await upload(id, form('item_id,quantity\n4941,4\n'), headers)).status).to.equal(422)
  })

  it('a form without the file, with more than it, of another type or broken off is refused by its own code', async () => {
    const id = await newPortfolio()
    const good = `item_id,quantity\n${scenario.items.full.item_id},4\n`
    expect((await upload(id, form(good, 'upload'))).body.detail[0].loc).to.deep.equal(['body', 'upload'])
    const empty = await upload(id, Buffer.from('--b--\r\n'))
    expect(empty.body.detail[0]).to.deep.include({ type: 'missing', loc: ['body', 'file'] })
    expect((await upload(id, form(good), { 'content-type': 'text/csv' })).status).to.equal(415)
    expect((await upload(id, form(good), { 'content-type': 'multipart/form-data' })).status).to.equal(400)
    expect((await upload(id, form(good).subarray(0, -9))).status).to.equal(400)
    expect(await read(id, 'items')).to.deep.equal([])
  })

  it('a file of 5 MB is imported row for row, and one byte more is a 413', async () => {
    const id = await newPortfolio()
    const items = scenario.catalog.filter(item => item.phase === null).slice(0, 2_000)
    const names = items.map(item => item.market_hash_name)
    const { file, rows } = largeLedger(MAX_BYTES, names)
    const large = await upload(id, form(Buffer.concat([file, Buffer.alloc(MAX_BYTES + 1 - file.length, '\n')])))
    expect([large.status, large.body.code]).to.deep.equal([413, 'PAYLOAD_TOO_LARGE'])
    const { status, body } = await upload(id, form(file))
    expect([status, body.imported]).to.deep.equal([200, rows])
    const out = await exported(id, 'transactions')
    expect(out.split('\r\n')).to.have.length(rows + 2)
  })
})
