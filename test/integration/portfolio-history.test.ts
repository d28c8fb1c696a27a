import { expect } from 'chai'
import { loadCatalog } from '#infra/config/catalog.ts'
import { DAY_MS, formatDay } from '#schemas/values/instant.ts'
import { openDailyReader } from '#services/api/queries/portfolio-days.ts'
import { storeRates } from '#test/fixtures/api-records.ts'
import { type ApiScenario, openApiScenario } from '#test/fixtures/api-scenario.ts'
import {
  type Close,
  type Closes,
  DAYS,
  dayBeside,
  loadPriceHistory,
  makeCloses,
  type PriceHistory,
  pricesOf,
  type Rates,
  storeCloses,
  worthOn,
} from '#test/fixtures/daily-closes.ts'
import { useClickhouse } from '#test/fixtures/use-clickhouse.ts'
import { type SeededRandom, seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'

const PORTFOLIOS = 50
const FIRST = '2021-08-01'
const END = dayBeside(FIRST, 1_000)
/** The first item of the market has a price of more than a dime before this day. */
const PRICED_BY = '2022-05-01'
const LATE = '9999-12-31'
/** By the API's clock: midnight must not pass. */
const NOW = Date.now()
const PROVIDERS = ['provider_02', 'provider_05', 'provider_33']
const CHOICES = [
  { currency: 'USD', providers: PROVIDERS },
  { currency: 'CNY', providers: PROVIDERS },
  { currency: 'EUR', providers: PROVIDERS },
  { currency: 'USD', providers: ['provider_02'] },
  { currency: 'EUR', providers: ['provider_05', 'provider_33'] },
]

interface Trade {
  date: string
  type: 'buy' | 'sell'
  itemId: number
  quantity: number
}

describe('daily values', () => {
  const platform = useServers({ catalog: 'whole' })
  const clickhouse = useClickhouse(platform)
  let scenario: ApiScenario
  let random: SeededRandom
  let closes: Closes
  let rates: Rates
  let itemIds: number[]
  let key: string
  const prices = new Map<string, (Close | undefined)[]>()
  const worths = new Map<string, bigint | undefined>()

  before('recorded prices behind the API', async () => {
    random = seededRandom('portfolios on recorded prices')
    const histories = loadPriceHistory()
    const isPricedInTime = ({ prices }: PriceHistory) =>
      (prices[0]?.day ?? LATE) < PRICED_BY && prices.every(({ price }) => price > 100)
    const priced = histories.find(isPricedInTime)
    if (priced === undefined) throw new Error(`no recorded item has a price before ${PRICED_BY}`)
    const chosen = [priced, ...random.shuffle(histories.filter(one => one !== priced)).slice(0, 39)]
    itemIds = chosen.map(({ itemId }) => itemId)
    closes = makeCloses(random, chosen)
    rates = new Map(
      Array.from({ length: 70 }, (_, i) => {
        const noise = (base: number) => (base * (0.9 + random.next() / 5)).toFixed(7)
        return [dayBeside('2021-09-10', i * 13), { EUR: noise(0.87), CNY: noise(6.9) }]
      }),
    )
    scenario = await openApiScenario(platform, 5, {}, () => NOW)
    key = await platform.newKey()
    await storeCloses(clickhouse, closes)
    await storeRates(clickhouse, Object.fromEntries(rates))
  })
  after('end of the market', () => scenario.close())

  function makeTrades(): Trade[] {
    const items = random.shuffle(itemIds).slice(0, random.integer(1, 8))
    const held = new Map<number, number>()
    const days = Array.from({ length: random.integer(3, 40) }, () => dayBeside(FIRST, random.integer(0, 900))).sort()
    return days.map((date): Trade => {
      const itemId = random.pick(items)
      const has = held.get(itemId) ?? 0
      const type = has > 0 && random.chance(0.4) ? 'sell' : 'buy'
      const quantity = type === 'sell' ? random.integer(1, has) : random.integer(1, 5)
      held.set(itemId, has + (type === 'buy' ? quantity : -quantity))
      return { date, type, itemId, quantity }
    })
  }

  async function store(trades: readonly Trade[]): Promise<string> {
    const made = await scenario.ask('/v1/portfolio', { as: key, method: 'POST', body: { name: 'tried' } })
    const rows = trades.map(({ date, type, itemId, quantity }) => `${date},${type},${itemId},${quantity},100`)
    const file = ['date,type,item_id,quantity,price', ...random.shuffle(rows), ''].join('\n')
    const body = `--b\r\ncontent-disposition: form-data; name="file"; filename="f"\r\n\r\n${file}\r\n--b--\r\n`
    const headers = { 'content-type': 'multipart/form-data; boundary=b' }
    const path = `/v1/portfolio/${made.body.id}/import/csv`
    const stored = await scenario.ask(path, { as: key, method: 'POST', body, headers })
    expect(stored.status, stored.text).to.equal(200)
    return made.body.id
  }

  function worthOf(itemId: number, day: string, { currency, providers }: (typeof CHOICES)[number]): bigint | undefined {
    const name = `${itemId} ${day} ${currency} ${providers}`
    if (!worths.has(name)) {
      const series = `${itemId} ${providers}`
      if (!prices.has(series)) prices.set(series, pricesOf(closes, itemId, providers))
      const close = prices.get(series)?.[DAYS.indexOf(day)]
      worths.set(name, close && worthOn(close, currency, day, rates))
    }
    return worths.get(name)
  }

  function valueOn(trades: readonly Trade[], day: string, choice: (typeof CHOICES)[number]) {
    let [total, positions, valued] = [0n, 0, 0]
    for (const itemId of new Set(trades.map(trade => trade.itemId))) {
      let held = 0
      for (const trade of trades) {
        if (trade.itemId === itemId && trade.date <= day)
          held += trade.type === 'buy' ? trade.quantity : -trade.quantity
      }
      if (held === 0) continue
      positions += 1
      const worth = worthOf(itemId, day, choice)
      if (worth === undefined) continue
      valued += 1
      total += BigInt(held) * worth
    }
    const counts = { positions, items_valued: valued, items_missing_price: positions - valued }
    return { date: day, total_value: Number(total), ...counts }
  }

  async function readAll(id: string, query: string, limit: number) {
    const days: ReturnType<typeof valueOn>[] = []
    let cursor = ''
    do {
      const page = `${query}&limit=${limit}${cursor}`
      const { status, body, text } = await scenario.ask(`/v1/portfolio/${id}/history?${page}`, { as: key })
      expect(status, text.slice(0, 300)).to.equal(200)
      expect(body.pagination.has_prev).to.equal(cursor !== '')
      days.push(...body.data)
      cursor = body.pagination.next_cursor === null ? '' : `&cursor=${body.pagination.next_cursor}`
    } while (cursor)
    return days
  }
  const queryOf = ({ currency, providers }: (typeof CHOICES)[number]): string =>
    `currency=${currency}${providers.map(one => `&providers=${one}`).join('')}`

  async function compare(trades: readonly Trade[], choice: (typeof CHOICES)[number], limit: number) {
    const days = await readAll(await store(trades), `${queryOf(choice)}&end_date=${END}`, limit)
    const expected: ReturnType<typeof valueOn>[] = []
    const [first = END] = trades.map(({ date }) => date).sort()
    for (let day = first; day <= END; day = dayBeside(day, 1)) expected.push(valueOn(trades, day, choice))
    expect(days, JSON.stringify(trades)).to.deep.equal(expected)
    return days
  }

  it('count an item as missing until its first price, and its price from then on', async () => {
    const [itemId = 0] = itemIds
    const firstDay = DAYS.find(day => closes.get(itemId)?.get('provider_02')?.has(day)) as string
    const bought = dayBeside(firstDay, -3)
    const trades: Trade[] = [{ date: bought, type: 'buy', itemId, quantity: 2 }]
    const days = await compare(trades, { currency: 'USD', providers: ['provider_02'] }, 400)
    expect(days.slice(0, 4).map(({ date, items_missing_price }) => [date, items_missing_price])).to.deep.equal([
      ...[0, 1, 2].map(later => [dayBeside(bought, later), 1]),
      [firstDay, 0],
    ])
    expect(days[2]?.total_value).to.equal(0)
    expect(days[3]?.total_value).to.be.greaterThan(20)
  })

  it(`of ${PORTFOLIOS} random portfolios are those of every day recomputed, to the hundredth`, async () => {
    let compared = 0
    for (let i = 0; i < PORTFOLIOS; i++) {
      const choice = CHOICES[i % CHOICES.length] as (typeof CHOICES)[number]
      const days = await compare(makeTrades(), choice, random.integer(50, 400))
      compared += days.length
    }
    // The last trade of each lies a hundred days before the end at least.
    expect(compared).to.be.greaterThan(PORTFOLIOS * 100)
  })

  it('come in the window that is asked for', async () => {
    const [itemId = 0] = itemIds
    const id = await store([{ date: '2022-03-05', type: 'buy', itemId, quantity: 1 }])
    const ask = async (query: string) => (await scenario.ask(`/v1/portfolio/${id}/history?${query}`, { as: key })).body
    const dates = ({ data }: { data: { date: string }[] }) => [data[0]?.date, data.at(-1)?.date, data.length]
    const today = new Date(NOW).toISOString().slice(0, 10)
    expect(dates(await ask('start_date=2022-03-04&end_date=2022-03-06'))).to.deep.equal(['2022-03-04', '2022-03-06', 3])
    expect(dates(await ask('lookback=7d'))).to.deep.equal([dayBeside(today, -6), today, 7])
    const last30 = await ask('lookback=30&start_date=2022-01-01&end_date=2022-04-01')
    expect(dates(last30)).to.deep.equal(['2022-03-03', '2022-04-01', 30])
    const whole = await ask('limit=2000')
    expect([whole.meta.start_date, whole.meta.end_date]).to.deep.equal(['2022-03-05', today])
    expect(whole.data.at(-1).date).to.equal(today)
    expect((await ask('end_date=2999-01-01')).meta.end_date).to.equal(today)
    const cursorOfUsd = (await ask('limit=5')).pagination.next_cursor
    for (const [name, refused] of [
      ['start_date', 'start_date=2022-03-07&end_date=2022-03-06'],
      ['lookback', 'lookback=0d'],
      ['cursor', `limit=5&currency=EUR&cursor=${cursorOfUsd}`],
    ] as const)
      expect((await ask(refused)).detail[0].loc).to.deep.equal(['query', name])
  })

  it('come in pages of fewer days the more items there are', async () => {
    const [itemId = 0, ...others] = itemIds
    const unpriced = loadCatalog().flatMap(({ item_id }) => (itemIds.includes(item_id) ? [] : item_id))
    const buy = (one: number, date = FIRST): Trade => ({ date, type: 'buy', itemId: one, quantity: 1 })
    const few = [buy(itemId), ...others.map(one => buy(one, dayBeside(FIRST, 400)))]
    const many = unpriced.slice(0, 3_000)
    const [large, small] = [await store([...few, ...many.map(one => buy(one))]), await store(few)]
    const query = `currency=CNY&end_date=${END}`
    const page = (await scenario.ask(`/v1/portfolio/${large}/history?${query}&limit=2000`, { as: key })).body
    expect(page.data.length).to.be.within(100, 900)
    expect(page.pagination.has_next).to.equal(true)
    const whole = await readAll(small, query, 2_000)
    const added = whole.map(day => ({
      ...day,
      positions: day.positions + many.length,
      items_missing_price: day.items_missing_price + many.length,
    }))
    expect(await readAll(large, query, 2_000)).to.deep.equal(added)
    // The same in blocks of few closes, two at a time.
    const sources = { clickhouse: clickhouse.writer, database: scenario.database, clock: () => 0, blockRows: 2_000 }
    const [first = 0, last = 0, today = 0] = [FIRST, END, formatDay(NOW)].map(day => Date.parse(day) / DAY_MS)
    const scope = { portfolioId: small, version: 'any', providers: undefined, today, currency: 'CNY' }
    const days = await openDailyReader(sources)({ ...scope, run: (_, work) => work() })
    const totals: number[] = []
    while (first + totals.length <= last) {
      const some = await days.read(first + totals.length, last)
      expect(some.length).to.be.within(1, 400)
      totals.push(...some.map(({ total }) => total))
    }
    expect(totals).to.deep.equal(whole.map(({ total_value }) => total_value))
  })

  it('follow a change of the ledger at once', async () => {
    const [itemId = 0] = itemIds
    const id = await store([{ date: '2022-03-05', type: 'buy', itemId, quantity: 1 }])
    const query = 'start_date=2022-06-01&end_date=2022-06-01'
    const before = await readAll(id, query, 10)
    const body = { item_id: itemId, type: 'buy', quantity: 2, price: 1, date: '2022-05-01' }
    await scenario.ask(`/v1/portfolio/${id}/transactions`, { as: key, method: 'POST', body })
    const [then] = await readAll(id, query, 10)
    expect(then?.total_value).to.equal((before[0]?.total_value ?? 0) * 3)
    expect(then?.total_value).to.be.greaterThan(0)
  })

  it('of an empty portfolio are nothing', async () => {
    const id = await store([])
    const [day] = await readAll(id, 'currency=EUR', 5)
    expect(day).to.include({ total_value: 0, positions: 0, items_valued: 0 })
  })
})
