/**
 * The performance of ledgers as large as they may be: what they come to, and that nothing else waits meanwhile.
 */
import { expect } from 'chai'
import { performanceReply } from '#schemas/api/portfolio-values.ts'
import { type ApiScenario, openApiScenario } from '#test/fixtures/api-scenario.ts'
import { expectFigure } from '#test/harness/figures.ts'
import { watchLoop } from '#test/harness/loop-watch.ts'
import { useServers } from '#test/harness/use-servers.ts'

const TRADES = 250_000
/** Longest that a request may keep all others of its process waiting. */
const LOOP_LIMIT_MS = 50

describe('the performance of a ledger', () => {
  const platform = useServers()
  let scenario: ApiScenario
  before('a market', async () => {
    scenario = await openApiScenario(platform)
  })
  after('end of the market', () => scenario.close())

  const post = (path: string, body: unknown) =>
    scenario.ask(path, { method: 'POST', body, headers: { 'content-type': 'application/json' } })

  /** Buys of one unit each of some items, day by day, and one sell of all that is held of each. */
  async function fill(id: string, items: number): Promise<void> {
    await scenario.database.rows(
      `INSERT INTO portfolio_transactions
        (portfolio_id, item_id, type, quantity, price, currency, date, fee_percentage, created_at, updated_at)
      SELECT $1, 1 + n % $3, CASE WHEN n < $2 - $3 THEN 'buy' ELSE 'sell' END,
        CASE WHEN n < $2 - $3 THEN 1 ELSE $2 / $3 - 1 END, 100, 'USD',
        CASE WHEN n < $2 - $3 THEN date '2026-01-01' + n % 100 ELSE '2026-06-01' END, 2.5, now(), now()
      FROM generate_series(0, $2 - 1) n`,
      [id, TRADES, items],
    )
  }

  for (const items of [1, 10_000])
    it(`keeps the loop for no longer than others may wait, with all that a portfolio takes in ${items} items`, async () => {
      const { id } = (await post('/v1/portfolio', { name: 'large' })).body
      await fill(id, items)
      const watch = watchLoop()
      // Not held against its description here: that reads the text at once, in this process.
      const answer = await fetch(`${scenario.roles.baseUrl}/v1/portfolio/${id}/performance`, {
        headers: { authorization: `Bearer ${scenario.keys.quant}` },
      })
      const parts: Uint8Array[] = []
      for await (const part of answer.body as AsyncIterable<Uint8Array>) parts.push(part)
      const longestMs = watch.stop()
      const text = Buffer.concat(parts).toString()
      expect(answer.status, text.slice(0, 500)).to.equal(200)
      const { data } = performanceReply.parse(JSON.parse(text))
      const bought = 100 * (TRADES - items)
      // The fee of a unit is 2.5 cents, rounded up; that of a sell is of its whole amount.
      const sellFee = items === 1 ? Math.round(bought * 0.025) : items * Math.round(100 * (TRADES / items - 1) * 0.025)
      const fees = 3 * (TRADES - items) + sellFee
      expect(data.items).to.have.length(items)
      expect(data).to.deep.include({ bought, sold: bought, fees, cost_basis: 0, market_value: 0 })
      expect(data.total_profit).to.equal(-fees)
      expectFigure({
        test: 'performance of a ledger',
        what: `the longest stretch of work, of ${items} items`,
        value: longestMs / 1_000,
        unit: 's',
        limit: { atMost: LOOP_LIMIT_MS / 1_000 },
      })
    })

  it('is that of the ledger, and of an empty one nothing', async () => {
    const { id } = (await post('/v1/portfolio', { name: 'small' })).body
    const trade = { item_id: scenario.items.full.item_id, type: 'buy', quantity: 1, price: 100, date: '2026-01-10' }
    expect((await post(`/v1/portfolio/${id}/transactions`, trade)).status).to.equal(201)
    const { data } = (await scenario.ask(`/v1/portfolio/${id}/performance`)).body
    expect(data).to.deep.include({ bought: 100, cost_basis: 100, items_valued: 1 })
    expect(data.items).to.have.length(1)
    const empty = (await post('/v1/portfolio', { name: 'empty' })).body
    expect((await scenario.ask(`/v1/portfolio/${empty.id}/performance`)).body.data.items).to.deep.equal([])
  })
})
