/**
 * The performance of ledgers as large as they may be: what they come to.
 */
import { expect } from 'chai'
import type { Database } from '#infra/postgres/pool.ts'
import { performanceReply } from '#schemas/api/portfolio-values.ts'
import { type ApiScenario, openApiScenario } from '#test/fixtures/api-scenario.ts'
import { useServers } from '#test/harness/use-servers.ts'

const TRADES = 250_000

describe('the performance of a ledger', () => {
  const platform = useServers()
  let scenario: ApiScenario
  let database: Database
  before('a market', async () => {
    scenario = await openApiScenario(platform)
    database = platform.openDatabase({ statementLimitMs: 120_000 })
  })
  after('end of the market', () => scenario.close())

  const post = (path: string, body: unknown) =>
    scenario.ask(path, { method: 'POST', body, headers: { 'content-type': 'application/json' } })

  /** Buys of one unit each of some items, day by day, and one sell of all that is held of each. */
  async function fill(id: string, items: number): Promise<void> {
    await database.rows(
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
    it(`is that of all that a portfolio takes, in ${items} items`, async () => {
      const { id } = (await post('/v1/portfolio', { name: 'large' })).body
      await fill(id, items)
      const { status, text, body } = await scenario.ask(`/v1/portfolio/${id}/performance`)
      expect(status, text.slice(0, 500)).to.equal(200)
      const { data } = performanceReply.parse(body)
      const bought = 100 * (TRADES - items)
      // The fee of a unit is 2.5 cents, rounded up; that of a sell is of its whole amount.
      const sellFee = items === 1 ? Math.round(bought * 0.025) : items * Math.round(100 * (TRADES / items - 1) * 0.025)
      const fees = 3 * (TRADES - items) + sellFee
      expect(data.items).to.have.length(items)
      expect(data).to.deep.include({ bought, sold: bought, fees, cost_basis: 0, market_value: 0 })
      expect(data.total_profit).to.equal(-fees)
    })
})
