/**
 * A name that no item has, on every route that selects an item: the 404 names the nearest one.
 */
import { expect } from 'chai'
import { type ApiScenario, openApiScenario } from '#test/fixtures/api-scenario.ts'
import { useServers } from '#test/harness/use-servers.ts'

const MISS = 'AK-47 | Redlin (Field-Tested)'
const NEAREST = 'AK-47 | Redline (Field-Tested)'

describe('a near miss of market_hash_name', () => {
  const platform = useServers()
  let scenario: ApiScenario
  let portfolio: string

  before('a market behind the service', async () => {
    scenario = await openApiScenario(platform, 5)
    portfolio = (await post('/portfolio', { name: 'near' })).body.id
  })
  after('end of the market', () => scenario.close())

  const post = (path: string, body: object) =>
    scenario.ask(path, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    })
  const codeAndDetail = ({ status, body }: { status: number; body: { code: string; detail: string } }) => [
    status,
    body.code,
    body.detail,
  ]
  const named = [404, 'ITEM_NOT_FOUND', `No catalog item has this name; the nearest is "${NEAREST}".`]

  for (const path of [
    '/prices',
    '/bids',
    '/prices/candles',
    '/prices/history',
    '/sales',
    '/market/indicators',
    '/market/history/chart',
  ]) {
    it(`on GET ${path} is a 404 that names the nearest one, and a far one is a 404 without`, async () => {
      const ask = (name: string) => scenario.ask(`${path}?market_hash_name=${encodeURIComponent(name)}`)
      expect(codeAndDetail(await ask(MISS))).to.deep.equal(named)
      const far = await ask('no such thing')
      expect([far.status, far.body.code]).to.deep.equal([404, 'ITEM_NOT_FOUND'])
      expect(far.body.detail).not.to.include('nearest')
    })
  }

  it('on creates in a portfolio is a 404 that names the nearest one', async () => {
    const entry = { market_hash_name: MISS, quantity: 1 }
    const transaction = { ...entry, type: 'buy', price: 100, date: '2026-01-02' }
    expect(codeAndDetail(await post(`/portfolio/${portfolio}/items`, entry))).to.deep.equal(named)
    expect(codeAndDetail(await post(`/portfolio/${portfolio}/transactions`, transaction))).to.deep.equal(named)
  })

  it('is no miss where the name is right and the phase is not', async () => {
    const { status, body } = await scenario.ask(`/prices?market_hash_name=${encodeURIComponent(NEAREST)}&phase=Ruby`)
    expect([status, body.code]).to.deep.equal([404, 'ITEM_NOT_FOUND'])
    expect(body.detail).not.to.include('nearest')
  })

  it('on GET /items is 200 with none', async () => {
    const { status, body } = await scenario.ask(`/items?market_hash_name=${encodeURIComponent(MISS)}`)
    expect([status, body.items]).to.deep.equal([200, []])
  })
})
