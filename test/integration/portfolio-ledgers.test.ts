import { randomUUID } from 'node:crypto'
import { expect } from 'chai'
import { HttpError } from '#infra/http/http-error.ts'
import { type Database, databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import {
  createPortfolio,
  type IdempotencyKey,
  openPortfolioStore,
  type PortfolioStore,
  requestHash,
} from '#services/portfolios/commands.ts'
import { addEntry } from '#services/portfolios/entries/commands.ts'
import { addTransaction, changeTransaction, removeTransaction } from '#services/portfolios/ledger/commands.ts'
import { readLedger } from '#services/portfolios/ledger/reader.ts'
import { findPortfolio, listEntries, listHoldings } from '#services/portfolios/reader.ts'
import { randomOf, type SeededRandom, seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'
import {
  after as afterOperation,
  holdingsOf,
  isSound,
  type ModelTrade,
  nextOperation,
  type Operation,
} from '#test/oracles/ledger-model.ts'

const OPERATIONS = 1_000
const ITEMS = [11, 22, 33]
const NOW = Date.UTC(2026, 5, 1)
/** Of a transaction, what no rule of holdings looks at. */
const PLAIN = { price: 100, currency: 'USD', fee_amount: null, fee_percentage: null, marketplace: null, note: null }

describe('ledgers', () => {
  const platform = useServers()
  const databases: Database[] = []
  let stores: PortfolioStore[]
  let accountId: string

  before('stores of three processes', async () => {
    const { config, log } = platform
    const url = databaseUrl(config.servers.postgres, databaseName(config.namespace))
    for (const name of ['one', 'two', 'three']) databases.push(openDatabase(url, { name, log, connections: 5 }))
    stores = databases.map(openPortfolioStore)
    accountId = (await createAccountWithKey(databases[0] as Database, { tier: 'quant' })).account_id
  })
  after('end of the stores', async () => {
    for (const database of databases) await database.close()
  })

  const storeOf = (i: number) => stores[i % stores.length] as PortfolioStore
  const scopeOf = (portfolioId: string, idempotencyKey?: IdempotencyKey) => ({
    accountId,
    portfolioId,
    now: NOW,
    entriesMax: 10_000,
    transactionsMax: 1_000_000,
    idempotencyKey,
  })
  async function newPortfolio(): Promise<string> {
    const scope = { accountId, now: NOW }
    return (await createPortfolio(storeOf(0), scope, { name: 'tried', portfoliosMax: 1_000 })).id
  }

  /** Does an operation; the new id, or undefined when the rules refuse it. */
  async function perform(
    store: PortfolioStore,
    portfolioId: string,
    operation: Operation,
    idempotencyKey?: IdempotencyKey,
  ): Promise<string | undefined> {
    const scope = scopeOf(portfolioId, idempotencyKey)
    try {
      if (operation.kind === 'add') {
        return (await addTransaction(store, scope, { ...operation.trade, ...PLAIN })).id
      }
      if (operation.kind === 'change') await changeTransaction(store, scope, operation.id, operation.patch)
      else await removeTransaction(store, scope, operation.id)
      return operation.id
    } catch (error) {
      if (error instanceof HttpError && error.code === 'INSUFFICIENT_HOLDINGS') return undefined
      throw error
    }
  }

  async function stored(portfolioId: string): Promise<ModelTrade[]> {
    const page = { portfolioId, limit: 10_000, order: 'oldest' } as const
    const { records } = await readLedger(storeOf(0).database, page)
    return records.map(({ id, item_id, type, quantity, date }) => ({ id, item_id, type, quantity, date }))
  }
  const byId = (trades: readonly ModelTrade[]) => [...trades].sort((a, b) => (a.id < b.id ? -1 : 1))
  async function expectHoldings(portfolioId: string, trades: readonly ModelTrade[], added = new Map<number, number>()) {
    const wanted = holdingsOf(trades)
    for (const [id, quantity] of added) wanted.set(id, (wanted.get(id) ?? 0) + quantity)
    const held = await listHoldings(storeOf(0).database, portfolioId)
    expect(held.map(({ item_id, quantity }) => [item_id, quantity])).to.deep.equal(
      [...wanted].sort(([a], [b]) => a - b),
    )
  }

  it(`one writer is answered as the model predicts, in ${OPERATIONS} operations`, async () => {
    const random = seededRandom('ledger of one writer')
    const portfolioId = await newPortfolio()
    let trades: ModelTrade[] = []
    let refused = 0
    for (let i = 0; i < OPERATIONS; i++) {
      const operation = nextOperation(random, ITEMS, trades)
      const next = afterOperation(trades, operation, 'new')
      const id = await perform(storeOf(i), portfolioId, operation)
      expect(id !== undefined, `operation ${i}: ${JSON.stringify(operation)}`).to.equal(isSound(next))
      if (id === undefined) refused += 1
      else trades = afterOperation(trades, operation, id)
      if (i % 50 === 0) await expectHoldings(portfolioId, trades)
    }
    expect(byId(await stored(portfolioId))).to.deep.equal(byId(trades))
    await expectHoldings(portfolioId, trades)
    expect(refused, 'the rules were tried').to.be.greaterThan(OPERATIONS / 100)
    const { version } = await findPortfolio(storeOf(0), accountId, portfolioId)
    expect(Number(version), 'a version for each write and none for a refusal').to.equal(OPERATIONS - refused + 1)
  })

  it(`many writers at once lose and double nothing in ${OPERATIONS} operations, each create sent twice`, async () => {
    const random = seededRandom('ledger of many writers')
    const portfolioId = await newPortfolio()
    const added = new Map<number, number>()
    const writers = Array.from({ length: 10 }, (_, i) => randomOf(random.integer(0, 2 ** 32 - 1) + i))
    const trades = (await Promise.all(writers.map((own, i) => write(own, i)))).flat()
    expect(byId(await stored(portfolioId))).to.deep.equal(byId(trades))
    expect(isSound(trades)).to.equal(true)
    await expectHoldings(portfolioId, trades, added)
    const [{ count } = { count: 0 }] = await storeOf(0).database.rows<{ count: number }>(
      'SELECT transaction_count AS count FROM portfolios WHERE id = $1',
      [portfolioId],
    )
    expect(count).to.equal(trades.length)
    const entries = await listEntries(storeOf(0).database, portfolioId)
    expect((await findPortfolio(storeOf(0), accountId, portfolioId)).item_count).to.equal(entries.length)

    async function write(own: SeededRandom, writer: number): Promise<ModelTrade[]> {
      let mine: ModelTrade[] = []
      for (let i = 0; i < OPERATIONS / writers.length; i++) {
        const operation = nextOperation(own, ITEMS, mine)
        if (operation.kind === 'add' && own.chance(0.1)) {
          const { item_id, quantity } = operation.trade
          await addEntry(storeOf(writer), scopeOf(portfolioId), { item_id, quantity, source: 'manual' })
          added.set(item_id, (added.get(item_id) ?? 0) + quantity)
          continue
        }
        const idempotencyKey = { key: randomUUID(), hash: requestHash('try', JSON.stringify(operation)) }
        const isCreate = operation.kind === 'add'
        // The second goes to another process, and may be first.
        const sent = [perform(storeOf(writer + i), portfolioId, operation, isCreate ? idempotencyKey : undefined)]
        if (isCreate) sent.push(perform(storeOf(writer + i + 1), portfolioId, operation, idempotencyKey))
        const [first, second] = await Promise.all(sent)
        // A refused create leaves its key free: the other try may have found enough by then.
        const id = first ?? second
        if (first !== undefined && second !== undefined) expect(second).to.equal(first)
        if (id !== undefined) mine = afterOperation(mine, operation, id)
        if (i % 10 === 0) expect(isSound(await stored(portfolioId)), 'a ledger that somebody saw').to.equal(true)
      }
      return mine
    }
  })

  it('of an account hold no more transactions together than its tier allows, however many are written to at once', async () => {
    // Each portfolio alone used to be bounded: twenty of a free account held five million.
    const own = (await createAccountWithKey(databases[0] as Database, { tier: 'free' })).account_id
    const make = () =>
      createPortfolio(storeOf(0), { accountId: own, now: NOW }, { name: 'tried', portfoliosMax: 20 }).then(
        ({ id }) => id,
      )
    const portfolios = await Promise.all(Array.from({ length: 12 }, make))
    const scope = (portfolioId: string) => ({ ...scopeOf(portfolioId), accountId: own, transactionsMax: 10 })
    const buy = { item_id: 11, type: 'buy', quantity: 1, date: '2026-01-05', ...PLAIN } as const
    const add = (i: number) => addTransaction(storeOf(i), scope(portfolios[i % portfolios.length] as string), buy)
    const ended = await Promise.allSettled(Array.from({ length: 24 }, (_, i) => add(i)))
    const refusals = ended.flatMap(one => (one.status === 'rejected' ? [[one.reason.code, one.reason.detail]] : []))
    const refusal = [
      'PORTFOLIO_ITEM_LIMIT_REACHED',
      'Your tier allows 10 transactions over all portfolios; remove some first.',
    ]
    expect(refusals).to.deep.equal(Array.from({ length: 14 }, () => refusal))
    const done = ended.findIndex(one => one.status === 'fulfilled')
    const { id } = (ended[done] as PromiseFulfilledResult<{ id: string }>).value
    await removeTransaction(storeOf(0), scope(portfolios[done % portfolios.length] as string), id)
    expect(await add(done)).to.include({ item_id: 11 })
  })
})
