/**
 * CSV import and export through the API: malformed files, a file at the bound, and the way out and in again.
 */
import { expect } from 'chai'
import { type ApiScenario, openApiScenario } from '#test/fixtures/api-scenario.ts'
import { largeLedger, MALFORMED } from '#test/fixtures/malformed-csv.ts'
import type { Answer } from '#test/harness/scenario.ts'
import { useServers } from '#test/harness/use-servers.ts'

const MAX_BYTES = 5 * 1024 * 1024

describe('portfolio files through the API', () => {
  const platform = useServers()
  let scenario: ApiScenario
  before('a market', async () => {
    scenario = await openApiScenario(platform, 5)
  })
  after('end of the market', () => scenario.close())

  const newPortfolio = async (): Promise<string> => {
    const body = JSON.stringify({ name: 'files' })
    const headers = { 'content-type': 'application/json' }
    return (await scenario.ask('/v1/portfolio', { method: 'POST', body, headers })).body.id
  }
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
  // biome-ignore lint/suspicious/noExplicitAny: records of the API
  const without = (record: any, ...names: string[]) =>
    Object.fromEntries(Object.entries(record).filter(([name]) => !names.includes(name)))

  it('each malformed file is refused with its row, and nothing is stored', async () => {
    const id = await newPortfolio()
    for (const { what, file, row } of MALFORMED) {
      const { status, body } = await upload(id, form(file))
      expect([status, body.code], what).to.deep.equal([422, 'VALIDATION_ERROR'])
      expect(
        body.errors.map((one: { row: number }) => one.row),
        what,
      ).to.deep.equal([row])
      expect(body, what).to.include({ imported: 0, skipped: 0 })
      expect(
        body.detail.map((one: { loc: unknown[] }) => one.loc),
        what,
      ).to.deep.equal([['body', 'file', row]])
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
    const [mine, theirs] = [await read(id, 'transactions'), await read(copy, 'transactions')]
    const shown = (records: object[]) => records.map(one => without(one, 'id', 'created_at', 'updated_at'))
    expect(shown(theirs)).to.deep.equal(shown(mine))
    expect(mine).to.have.length(3)
    const held = async (one: string) =>
      (await read(one, 'items')).map((entry: object) => without(entry, 'id', 'created_at'))
    expect(await held(copy)).to.deep.equal(await held(id))
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
    expect((await upload(id, form(good, 'upload'))).body.detail.map((one: { loc: unknown }) => one.loc)).to.deep.equal([
      ['body', 'upload'],
    ])
    expect((await upload(id, Buffer.from('--b--\r\n'))).body.detail[0]).to.deep.include({
      type: 'missing',
      loc: ['body', 'file'],
    })
    expect((await upload(id, form(good), { 'content-type': 'text/csv' })).status).to.equal(415)
    expect((await upload(id, form(good), { 'content-type': 'multipart/form-data' })).status).to.equal(400)
    expect((await upload(id, form(good).subarray(0, -9))).status).to.equal(400)
    expect(await read(id, 'items')).to.deep.equal([])
  })

  it('a file of 5 MB is imported row for row, and one byte more is a 413', async () => {
    const id = await newPortfolio()
    const names = scenario.catalog.filter(item => item.phase === null).slice(0, 2_000)
    const { file, rows } = largeLedger(
      MAX_BYTES,
      names.map(item => item.market_hash_name),
    )
    const large = await upload(id, form(Buffer.concat([file, Buffer.alloc(MAX_BYTES + 1 - file.length, '\n')])))
    expect([large.status, large.body.code]).to.deep.equal([413, 'PAYLOAD_TOO_LARGE'])
    const { status, body } = await upload(id, form(file))
    expect([status, body.imported]).to.deep.equal([200, rows])
    const out = await exported(id, 'transactions')
    expect(out.split('\r\n')).to.have.length(rows + 2)
  })
})
