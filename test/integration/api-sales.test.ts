/** GET /sales against the plain records that were stored. */
import { expect } from 'chai'
import { salesReply } from '#schemas/api/sales.ts'
import {
  convertedAt,
  makeRateDays,
  makeSales,
  type StoredSale,
  storeRates,
  storeSales,
} from '#test/fixtures/api-records.ts'
import { type ApiScenario, openApiScenario } from '#test/fixtures/api-scenario.ts'
import { useClickhouse } from '#test/fixtures/use-clickhouse.ts'
import { useServers } from '#test/harness/use-servers.ts'

const PROVIDERS = ['provider_02', 'provider_03', 'provider_07', 'provider_12', 'provider_41']
const iso = (instant: number): string => new Date(instant).toISOString()

describe('GET /sales', () => {
  const platform = useServers()
  const clickhouse = useClickhouse(platform)
  const now = Date.now()
  const rateDays = makeRateDays(now)
  let scenario: ApiScenario
  let sales: StoredSale[]

  before('sales behind the service', async () => {
    scenario = await openApiScenario(platform, 0)
    const { items, random } = scenario
    const itemIds = [items.full, items.finish, ...items.phases].map(item => item.item_id)
    sales = makeSales(random, { itemIds, providers: PROVIDERS, now, days: 8, count: 800 })
    await storeSales(clickhouse, sales)
    await storeRates(clickhouse, rateDays)
  })
  after('end of the market', () => scenario.close())

  const order = (a: StoredSale, b: StoredSale): number =>
    b.sold_at - a.sold_at ||
    b.item_id - a.item_id ||
    (a.provider !== b.provider ? (a.provider < b.provider ? 1 : -1) : a.sale_id < b.sale_id ? 1 : -1)

  function recordsOf(fits: (sale: StoredSale) => boolean, currency = 'USD') {
    return sales
      .filter(fits)
      .sort(order)
      .map(sale => {
        const item = scenario.catalog.find(one => one.item_id === sale.item_id)
        const { inspect_in_game: in_game, screenshot_front } = sale
        return {
          date: iso(sale.sold_at),
          provider: sale.provider,
          price:
            sale.currency === currency
              ? sale.price
              : convertedAt(rateDays, sale.price_micro_usd, currency, sale.sold_at),
          currency,
          item_id: sale.item_id,
          market_hash_name: item?.market_hash_name,
          phase: item?.phase,
          float: sale.float,
          paint_seed: sale.paint_seed,
          stickers: sale.stickers,
          // -1: the provider gives no pattern.
          charms:
            sale.charms?.map(charm => ({ ...charm, pattern_id: charm.pattern_id < 0 ? null : charm.pattern_id })) ??
            null,
          inspect: in_game || screenshot_front ? { in_game, screenshot_front, screenshot_back: null } : null,
        }
      })
  }
  // provider_03 has no sales in the registry, so its rows are beyond every answer.
  const isShown = (sale: StoredSale): boolean => sale.provider !== 'provider_03'

  async function pages(parameters: string, from?: string) {
    const items: object[] = []
    let cursor = from === undefined ? '' : `&cursor=${from}`
    for (;;) {
      const answer = await scenario.ask(`/v1/sales?${parameters}${cursor}`)
      expect(answer.status, answer.text).to.equal(200)
      const body = salesReply.parse(answer.body)
      expect(body.meta.result_count).to.equal(body.items.length)
      items.push(...body.items)
      if (!body.pagination.has_next) return items
      cursor = `&cursor=${body.pagination.next_cursor}`
    }
  }

  it('of all items, newest first, page by page', async () => {
    const expected = recordsOf(isShown)
    expect(await pages('limit=1000')).to.deep.equal(expected)
    expect(await pages('limit=61')).to.deep.equal(expected)
  })

  it('in another currency, at the rate of the day of each', async () => {
    expect(await pages('currency=EUR')).to.deep.equal(recordsOf(isShown, 'EUR'))
  })

  it('of an item by id, by name and by phase', async () => {
    const { full, finish, phases } = scenario.items
    const { item_id, market_hash_name } = full
    expect(await pages(`item_id=${item_id}&phase=Ruby`)).to.deep.equal(
      recordsOf(sale => isShown(sale) && sale.item_id === item_id),
    )
    expect(await pages(`market_hash_name=${encodeURIComponent(market_hash_name)}&limit=13`)).to.deep.equal(
      recordsOf(sale => isShown(sale) && sale.item_id === item_id),
    )
    const ids = [finish, ...phases].map(item => item.item_id)
    expect(await pages(`market_hash_name=${encodeURIComponent(finish.market_hash_name)}`)).to.deep.equal(
      recordsOf(sale => isShown(sale) && ids.includes(sale.item_id)),
    )
    const { phase } = phases[0] as { phase: string }
    const ofPhase = scenario.catalog.filter(item => item.phase === phase).map(item => item.item_id)
    expect(await pages(`phase=${encodeURIComponent(phase)}`)).to.deep.equal(
      recordsOf(sale => isShown(sale) && ofPhase.includes(sale.item_id)),
    )
  })

  const filters: { query: string; fits: (sale: StoredSale) => boolean }[] = [
    {
      query: 'providers=provider_02&providers=provider_41',
      fits: sale => ['provider_02', 'provider_41'].includes(sale.provider),
    },
    { query: 'min_float=0.25', fits: sale => sale.float !== null && sale.float >= 0.25 },
    { query: 'max_float=0.5', fits: sale => sale.float !== null && sale.float <= 0.5 },
    { query: 'min_float=0&max_float=1', fits: sale => sale.float !== null },
    { query: 'paint_seed=0', fits: sale => sale.paint_seed === 0 },
    { query: 'stickers=Howl', fits: sale => sale.stickers?.some(one => one.name === 'Howl') === true },
    {
      query: "stickers=Howl&stickers=Flammable+(Foil)'s",
      fits: sale => ['Howl', "Flammable (Foil)'s"].every(name => sale.stickers?.some(one => one.name === name)),
    },
    { query: 'stickers=howl', fits: () => false },
    {
      query: 'charms=Charm+%7C+Disco',
      fits: sale => sale.charms?.some(one => one.name === 'Charm | Disco') === true,
    },
    {
      query: 'paint_seed=3&stickers=Howl&min_float=0.1&providers=provider_07&providers=provider_12',
      fits: sale =>
        sale.paint_seed === 3 &&
        sale.stickers?.some(one => one.name === 'Howl') === true &&
        (sale.float ?? -1) >= 0.1 &&
        ['provider_07', 'provider_12'].includes(sale.provider),
    },
  ]
  for (const { query, fits } of filters)
    it(`where ${query}`, async () => {
      const expected = recordsOf(sale => isShown(sale) && fits(sale))
      expect(await pages(query)).to.deep.equal(expected)
      const aFifth = Math.ceil((expected.length + 1) / 5)
      expect(await pages(`${query}&limit=${aFifth}`)).to.deep.equal(expected)
    })

  it('keeps its pages while sales are added', async () => {
    const expected = recordsOf(isShown)
    const first = (await scenario.ask('/sales?limit=100')).body
    const { full } = scenario.items
    const added = makeSales(scenario.random, { itemIds: [full.item_id], providers: PROVIDERS, now, days: 1, count: 5 })
    const late = added.map((sale, i) => ({ ...sale, sold_at: now + i, sale_id: `late-${i}` }))
    await storeSales(clickhouse, late, 10_000)
    const rest = await pages('limit=100', first.pagination.next_cursor)
    expect([...first.items, ...rest]).to.deep.equal(expected)
  })

  it('repeats what it was asked for', async () => {
    const { body } = await scenario.ask('/sales?paint_seed=3&stickers=Howl&limit=2', { as: 'pro' })
    expect(body.meta).to.deep.include({
      currency: 'USD',
      filters: {
        item_id: null,
        market_hash_name: null,
        phase: null,
        requested_providers: null,
        min_float: null,
        max_float: null,
        paint_seed: 3,
        stickers: ['Howl'],
        charms: null,
        limit: 2,
      },
      providers_queried: scenario.providers.filter(one => one.features.has_recent_sales).map(one => one.key),
    })
    expect((await scenario.ask('/sales', { as: 'pro' })).body.pagination.limit).to.equal(100)
    expect((await scenario.ask('/sales', { as: 'quant' })).body.pagination.limit).to.equal(1000)
  })

  it('are unavailable in a currency of which no day is known', async () => {
    const { status, body } = await scenario.ask('/sales?limit=1&currency=VEF')
    expect([status, body.code]).to.deep.equal([503, 'SERVICE_UNAVAILABLE'])
  })
})
