import { expect } from 'chai'
import { performanceReply } from '#schemas/api/portfolio-values.ts'
import { entriesReply, portfoliosReply } from '#schemas/api/portfolios.ts'
import { transactionReply } from '#schemas/api/transactions.ts'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import { type ApiScenario, openApiScenario } from '#test/fixtures/api-scenario.ts'
import type { Answer } from '#test/harness/scenario.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { hundredths, majorUnits } from '#test/oracles/exact-amounts.ts'

/** As many as a ledger may hold. */
const TRADES = 250_000
const MISSING = '00000000-0000-4000-8000-000000000000'

describe('portfolios', () => {
  const platform = useServers()
  let scenario: ApiScenario
  let id: string
  before('a market and a portfolio', async () => {
    scenario = await openApiScenario(platform)
    id = (await post('/v1/portfolio', { name: 'first' })).body.id
  })
  after('end of the market', () => scenario.close())

  const send = (method: string, path: string, body: unknown, headers: Record<string, string> = {}, as = 'quant') =>
    scenario.ask(path, { method, as, body, headers })
  const post = (path: string, body: unknown, headers: Record<string, string> = {}, as = 'quant') =>
    send('POST', path, body, headers, as)
  const buy = (more: object = {}) => ({
    item_id: scenario.items.full.item_id,
    type: 'buy',
    quantity: 5,
    price: 1250,
    date: '2026-01-10',
    ...more,
  })
  const trade = (more: object, portfolio = id) => post(`/v1/portfolio/${portfolio}/transactions`, buy(more))
  const expectCode = ({ status, body, text }: Answer, wanted: [status: number, code: string]) =>
    expect([status, body?.code], text).to.deep.equal(wanted)
  const newPortfolio = async (): Promise<string> => (await post('/v1/portfolio', { name: 'another' })).body.id

  it('are created, listed and deleted with all that they hold', async () => {
    const created = await post('/v1/portfolio', { name: 'second' })
    expect(created.status).to.equal(201)
    expect(created.body).to.include({ name: 'second', item_count: 0 })
    await trade({}, created.body.id)
    const listed = portfoliosReply.parse((await scenario.ask('/v1/portfolio')).body)
    expect(listed.data.find(one => one.id === created.body.id)).to.include({ item_count: 1 })
    const path = `/v1/portfolio/${created.body.id}`
    const gone = await scenario.ask(path, { method: 'DELETE' })
    expect([gone.status, gone.text]).to.deep.equal([204, ''])
    expectCode(await scenario.ask(path, { method: 'DELETE' }), [404, 'PORTFOLIO_NOT_FOUND'])
    const left = await scenario.database.rows('SELECT 1 FROM portfolio_transactions WHERE portfolio_id = $1', [
      created.body.id,
    ])
    expect(left).to.have.length(0)
  })

  it('take an entry by id, by name and by name and phase', async () => {
    const portfolio = await newPortfolio()
    const [phase] = scenario.items.phases
    if (!phase) throw new Error('the market has no phases')
    const path = `/v1/portfolio/${portfolio}/items`
    for (const [body, item] of [
      [{ item_id: scenario.items.full.item_id, quantity: 3 }, scenario.items.full],
      [{ market_hash_name: phase.market_hash_name, phase: phase.phase, quantity: 1, item_id: null }, phase],
      [{ market_hash_name: phase.market_hash_name, quantity: 2, phase: null }, scenario.items.finish],
    ] as const) {
      const added = await post(path, body)
      expect(added.status, added.text).to.equal(201)
      expect(added.body).to.include({ item_id: item.item_id, phase: item.phase, source: 'manual' })
    }
    const entries = entriesReply.parse((await scenario.ask(path)).body)
    expect(entries.map(entry => entry.quantity)).to.deep.equal([3, 1, 2])
    const removed = await scenario.ask(`${path}/${entries[1]?.id}`, { method: 'DELETE' })
    expect(removed.status).to.equal(204)
    expectCode(await scenario.ask(`${path}/${MISSING}`, { method: 'DELETE' }), [404, 'PORTFOLIO_ENTRY_NOT_FOUND'])
    expect((await scenario.ask(path)).body).to.have.length(2)
    expectCode(await post(path, { market_hash_name: 'No Such Item', quantity: 1 }), [404, 'ITEM_NOT_FOUND'])
  })

  it('refuse a transaction without an item or of a day to come, and a change of nothing', async () => {
    for (const [type, body] of [
      ['missing', { item_id: undefined }],
      ['less_than_equal', { date: '2999-01-01' }],
    ] as const) {
      const answer = await trade(body)
      const faults = answer.body.detail.map((one: { loc: unknown; type: string }) => [one.loc, one.type])
      expect([answer.status, faults]).to.deep.equal([422, [[['body', ...Object.keys(body)], type]]])
    }
    const { body } = await trade({})
    const empty = await send('PATCH', `/v1/portfolio/${id}/transactions/${body.id}`, { price: null })
    expect(empty.status).to.equal(422)
  })

  it('hold what the ledger adds up to, and refuse what would sell more than was held on any day', async () => {
    const portfolio = await newPortfolio()
    const path = `/v1/portfolio/${portfolio}`
    const held = async () => (await scenario.ask(`${path}/items`)).body.map((one: { quantity: number }) => one.quantity)
    const first = await trade({ quantity: 5, date: '2026-01-10' }, portfolio)
    expect(first.status, first.text).to.equal(201)
    expect(await held()).to.deep.equal([5])
    expectCode(await trade({ type: 'sell', quantity: 1, date: '2026-01-09' }, portfolio), [
      409,
      'INSUFFICIENT_HOLDINGS',
    ])
    const sold = await trade({ type: 'sell', quantity: 5, date: '2026-01-10' }, portfolio)
    expect(sold.status).to.equal(201)
    expect(await held()).to.deep.equal([])
    const one = `${path}/transactions/${first.body.id}`
    expectCode(await scenario.ask(one, { method: 'DELETE' }), [409, 'INSUFFICIENT_HOLDINGS'])
    for (const patch of [{ quantity: 4 }, { date: '2026-01-11' }, { type: 'sell' }]) {
      expectCode(await send('PATCH', one, patch), [409, 'INSUFFICIENT_HOLDINGS'])
    }
    const changed = await send('PATCH', one, { quantity: 9, price: 7, fee_amount: 3, note: 'more' })
    expect(transactionReply.parse(changed.body)).to.include({ quantity: 9, price: 7, fee_amount: 3, note: 'more' })
    const cleared = await send('PATCH', one, { fee_amount: null, note: null, quantity: null, currency: 'EUR' })
    expect(cleared.body).to.include({ quantity: 9, fee_amount: null, note: null, currency: 'EUR' })
    expect(await held()).to.deep.equal([4])
    expect((await scenario.ask(`${path}/transactions/${sold.body.id}`, { method: 'DELETE' })).status).to.equal(204)
    expect(await held()).to.deep.equal([9])
    expect((await scenario.ask(one, { method: 'DELETE' })).status).to.equal(204)
    expect(await held()).to.deep.equal([])
    expectCode(await scenario.ask(one, { method: 'DELETE' }), [404, 'TRANSACTION_NOT_FOUND'])
  })

  it('list transactions newest first, by day and then by entry', async () => {
    const portfolio = await newPortfolio()
    for (const [at, day] of [10, 12, 11, 12].entries())
      await trade({ note: 'abcd'.charAt(at), date: `2026-01-${day}` }, portfolio)
    const { body } = await scenario.ask(`/v1/portfolio/${portfolio}/transactions`)
    expect(body.map(({ note }: { note: string }) => note).join('')).to.equal('dbca')
  })

  it('keep units that were added by hand beside the ledger, in one entry of the item', async () => {
    const portfolio = await newPortfolio()
    const path = `/v1/portfolio/${portfolio}/items`
    await post(path, { item_id: scenario.items.full.item_id, quantity: 2 })
    await trade({ quantity: 5 }, portfolio)
    const { body } = await scenario.ask(path)
    expect(body.map((one: { quantity: number }) => one.quantity)).to.deep.equal([7])
    await trade({ type: 'sell', quantity: 5 }, portfolio)
    expect((await scenario.ask(path)).body[0]).to.include({ quantity: 2 })
  })

  it('are valued at the best live ask, in any currency, with every provider and null where there is none', async () => {
    const portfolio = await newPortfolio()
    const { full, unlisted } = scenario.items
    await post(`/v1/portfolio/${portfolio}/items`, { item_id: full.item_id, quantity: 3 })
    await post(`/v1/portfolio/${portfolio}/items`, { item_id: unlisted.item_id, quantity: 4 })
    // In the weakest currency three times an amount is beyond 2^53.
    for (const currency of ['USD', 'EUR', 'BTC', 'VEB']) {
      for (const providers of [undefined, ['provider_02', 'provider_36']]) {
        const asks = scenario.rows
          .filter(row => row.side === 'ask' && row.itemId === full.item_id)
          .filter(row => !providers || providers.includes(row.provider))
          .sort((a, b) => (a.provider < b.provider ? -1 : 1))
        const amounts = asks.map(row =>
          row.currency === currency
            ? BigInt(row.price)
            : BigInt(hundredths(majorUnits(row.priceMicroUsd, scenario.rates[currency] as string))),
        )
        const [best = 0n] = [...amounts].sort((a, b) => (a < b ? -1 : 1))
        const worth = Number(best * 3n)
        const query = `currency=${currency}${(providers ?? []).map(key => `&providers=${key}`).join('')}`
        const stored = await scenario.ask(`/v1/portfolio/${portfolio}/value?${query}`)
        const held = [full.item_id, unlisted.item_id, 99_999_999]
        const items = held.map((item_id, i) => ({ item_id, quantity: i + 3 }))
        const stateless = await post('/v1/portfolio/value', { items, providers, currency })
        const lines = [...stateless.body.data.line_items].sort((a, b) => a.item_id - b.item_id)
        expect(stored.body.data.line_items).to.deep.equal(lines)
        const total = { total_value: worth, items_valued: 1 }
        expect(stateless.body.data).to.deep.include({ ...total, items_not_found: [99_999_999] })
        expect(stored.body.data).to.deep.include({ ...total, items_not_found: [] })
        const line = lines.find(one => one.item_id === full.item_id)
        const listed = line.providers.map((one: Record<string, unknown>) => [one.provider, one.lowest_ask])
        expect(listed).to.deep.equal(asks.map(({ provider }, i) => [provider, Number(amounts[i])]))
        expect(line).to.include({ best_ask: Number(best), item_value: worth, rarity_color: full.rarity_color })
        const none = lines.find(one => one.item_id === unlisted.item_id)
        expect(none).to.include({ best_ask: null, item_value: null, quantity: 4 })
      }
    }
  })

  it('report what the ledger has earned: first in, first out, fees in the basis, the rest at the best ask', async () => {
    const portfolio = await newPortfolio()
    const empty = await scenario.ask(`/v1/portfolio/${portfolio}/performance`)
    expect(empty.body.data.items).to.deep.equal([])
    await trade({ quantity: 3, price: 1000, fee_amount: 30, date: '2026-01-01' }, portfolio)
    await trade({ quantity: 2, price: 2000, fee_percentage: 10, date: '2026-01-02' }, portfolio)
    await trade({ type: 'sell', quantity: 4, price: 1500, fee_amount: 100, date: '2026-01-03' }, portfolio)
    await trade({ item_id: scenario.items.unlisted.item_id, quantity: 1, price: 700, date: '2026-01-03' }, portfolio)
    const asks = scenario.rows.filter(row => row.side === 'ask' && row.itemId === scenario.items.full.item_id)
    const best = Math.min(
      ...asks.map(row => (row.currency === 'USD' ? row.price : Number(hundredths(majorUnits(row.priceMicroUsd, '1'))))),
    )
    const { status, body } = await scenario.ask(`/v1/portfolio/${portfolio}/performance`)
    expect(status).to.equal(200)
    const rowOf = (itemId: number) => body.data.items.find((one: { item_id: number }) => one.item_id === itemId)
    const mine = rowOf(scenario.items.full.item_id)
    // 3 units at 1000 + 10 and one of two at 2000 + 200 were sold; the other is still there.
    const realised = 6000 - 100 - 3030 - 2200
    expect(mine).to.include({ bought: 7000, sold: 6000, fees: 530, quantity: 1, cost_basis: 2200 })
    expect(mine).to.include({ realised_profit: realised, market_value: best, unrealised_profit: best - 2200 })
    const unpriced = { cost_basis: 700, market_value: null, unrealised_profit: null }
    expect(rowOf(scenario.items.unlisted.item_id)).to.include(unpriced)
    expect(body.data).to.include({ bought: 7700, market_value: best, total_profit: realised + best - 2200 })
    expect(body.data).to.include({ items_valued: 1, items_missing_price: 1, cost_basis: 2900 })
  })

  /** Buys of one unit each of some items, day by day, and one sell of all that is held of each. */
  async function fill(id: string, items: number): Promise<void> {
    const database = platform.openDatabase({ statementLimitMs: 120_000 })
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
    it(`report the performance of all that they take, in ${items} items`, async () => {
      const large = await newPortfolio()
      await fill(large, items)
      const { status, text, body } = await scenario.ask(`/v1/portfolio/${large}/performance`)
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

  it('answer a create that is sent again with the same key as before, and do it once', async () => {
    const headers = { 'idempotency-key': 'order-17' }
    const first = await post('/v1/portfolio', { name: 'once' }, headers)
    const again = await post('/v1/portfolio', { name: 'once' }, headers)
    expect([again.status, again.body]).to.deep.equal([201, first.body])
    const other = await post('/v1/portfolio', { name: 'other' }, headers)
    expect([other.status, other.body.detail[0].loc]).to.deep.equal([422, ['header', 'Idempotency-Key']])
    expect((await post('/v1/portfolio', { name: 'else' }, headers, 'pro')).body.id).not.to.equal(first.body.id)
    const path = `/v1/portfolio/${first.body.id}/transactions`
    const many = await Promise.all(Array.from({ length: 20 }, () => post(path, buy(), { 'idempotency-key': 'buy-1' })))
    expect(new Set(many.map(({ status, text }) => `${status}${text}`))).to.have.length(1)
    expect((await scenario.ask(path)).body).to.have.length(1)
    const refused = buy({ type: 'sell', quantity: 6 })
    expect((await post(path, refused, { 'idempotency-key': 'sell-1' })).status).to.equal(409)
    await post(path, buy({ quantity: 1 }))
    expect((await post(path, refused, { 'idempotency-key': 'sell-1' })).status).to.equal(201)
    expect((await post(path, buy(), { 'idempotency-key': 'ä' })).status).to.equal(422)
  })

  it('forget a key after a day', async () => {
    const headers = { 'idempotency-key': 'yesterday' }
    const first = await post('/v1/portfolio', { name: 'old' }, headers)
    await scenario.database.rows("UPDATE idempotency_keys SET created_at = created_at - interval '25 hours'")
    const again = await post('/v1/portfolio', { name: 'new' }, headers)
    expect([again.status, again.body.name]).to.deep.equal([201, 'new'])
    expect(again.body.id).not.to.equal(first.body.id)
    const [kept] = await scenario.database.rows('SELECT count(*)::int AS count FROM idempotency_keys')
    expect(kept?.count).to.equal(1)
  })

  it('are limited by tier, also when creates come at the same time', async () => {
    const { key } = await createAccountWithKey(scenario.database, { tier: 'free', name: 'limits' })
    const answers = await Promise.all(
      Array.from({ length: 25 }, (_, i) => post('/v1/portfolio', { name: `p${i}` }, {}, key)),
    )
    expect(answers.filter(({ status }) => status === 201)).to.have.length(20)
    const refused = answers.filter(({ status }) => status !== 201)
    expect(refused.map(({ body }) => body.code)).to.deep.equal(Array(5).fill('PORTFOLIO_LIMIT_REACHED'))
    const portfolio = answers.find(({ status }) => status === 201)?.body.id as string
    await scenario.database.rows(
      `INSERT INTO portfolio_entries (portfolio_id, item_id, added_quantity, source, created_at)
      SELECT $1, $2, 1, 'manual', now() FROM generate_series(1, 999)`,
      [portfolio, scenario.items.full.item_id],
    )
    const path = `/v1/portfolio/${portfolio}/items`
    const body = { item_id: scenario.items.full.item_id, quantity: 1 }
    expect((await post(path, body, {}, key)).status).to.equal(201)
    expectCode(await post(path, body, {}, key), [409, 'PORTFOLIO_ITEM_LIMIT_REACHED'])
    const ledger = `/v1/portfolio/${portfolio}/transactions`
    const tracked = await post(ledger, buy({ item_id: scenario.items.unlisted.item_id }), {}, key)
    expectCode(tracked, [409, 'PORTFOLIO_ITEM_LIMIT_REACHED'])
    expect((await scenario.ask(ledger, { as: key })).body).to.deep.equal([])
  })
})
