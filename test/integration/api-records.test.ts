import { expect } from 'chai'
import { candlesReply } from '#schemas/api/candles.ts'
import { providersReply } from '#schemas/api/providers.ts'
import { DAY_MS, HOUR_MS } from '#schemas/values/instant.ts'
import type { Candle } from '#streams/candles/reader.ts'
import type { StoredHealth } from '#streams/provider-health/table.ts'
import {
  convertedAt,
  makeChanges,
  makeRateDays,
  makeSales,
  type RateDays,
  type StoredChange,
  type StoredSale,
  storeChanges,
  storeRates,
  storeSales,
} from '#test/fixtures/api-records.ts'
import { type ApiScenario, openApiScenario } from '#test/fixtures/api-scenario.ts'
import { healthKeyNow } from '#test/fixtures/redis-views.ts'
import { useClickhouse } from '#test/fixtures/use-clickhouse.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { modelCandles } from '#test/oracles/candle-model.ts'

const INTERVALS = { '5m': 300_000, '1h': HOUR_MS, '1d': DAY_MS }
const PROVIDERS = ['provider_02', 'provider_03', 'provider_07', 'provider_12', 'provider_41']
const iso = (instant: number): string => new Date(instant).toISOString()

describe('stored records', () => {
  const platform = useServers()
  const clickhouse = useClickhouse(platform)
  const now = Date.now()
  let scenario: ApiScenario
  let changes: StoredChange[]
  let sales: StoredSale[]
  let rateDays: RateDays

  before('records behind the service', async () => {
    scenario = await openApiScenario(platform, 0)
    const { items, random } = scenario
    const itemIds = [items.full, items.finish, ...items.phases].map(item => item.item_id)
    changes = makeChanges(random, { itemIds, providers: PROVIDERS, now, days: 8, count: 1_500 })
    sales = makeSales(random, { itemIds, providers: PROVIDERS, now, days: 8, count: 800 })
    await storeChanges(clickhouse, changes)
    await storeSales(clickhouse, sales)
    const before = makeRateDays(now)
    await storeRates(clickhouse, before)
    rateDays = { ...before, ...scenario.rateDays }
  })
  after('end of the market', () => scenario.close())

  const converted = (micro: number, currency: string, at: number) => convertedAt(rateDays, micro, currency, at)

  async function pages(path: string, onPage: (page: number) => Promise<void> = async () => {}) {
    const items: object[] = []
    let cursor = ''
    for (let page = 0; ; page++) {
      const { status, body, text } = await scenario.ask(`/v1${path}${cursor}`)
      expect(status, text).to.equal(200)
      expect(body.meta.result_count).to.equal(body.items.length)
      expect(body.pagination).to.include({ total: -1, offset: 0, has_prev: page > 0 })
      items.push(...body.items)
      if (!body.pagination.has_next) {
        expect(body.pagination.next_cursor).to.equal(null)
        return items
      }
      expect(body.items).to.have.length(body.pagination.limit)
      cursor = `&cursor=${body.pagination.next_cursor}`
      await onPage(page)
    }
  }

  it('of health make a provider up, and those of rates keep the digits of their source', async () => {
    const now = Date.now()
    const health: StoredHealth = {
      last_completed_at: now,
      last_checked_at: now,
      consecutive_failures: 0,
      quarantined_reason: null,
      sides: {},
      total_offers: 12,
      unique_items: 7,
      total_value: 5_000,
      total_value_usd: 700,
      currency: 'CNY',
    }
    await scenario.redis.hset(
      await healthKeyNow(scenario.redis, platform.namespace),
      'provider_02',
      JSON.stringify(health),
    )
    const records = Object.values(providersReply.parse((await scenario.ask('/v1/providers')).body))
    expect(records.map(({ key }) => key)).to.deep.equal(scenario.providers.map(({ key }) => key))
    expect(records.filter(({ health: { status } }) => status === 'up').map(({ key }) => key)).to.deep.equal([
      'provider_02',
    ])
    const { text } = await scenario.ask('/v1/fx')
    for (const [code, rate] of Object.entries(scenario.rates)) expect(text).to.include(`"${code}":${rate}`)
  })

  describe('GET /prices/candles', () => {
    const asks = (itemId: number) => changes.filter(change => change.side === 'ask' && change.item_id === itemId)

    const shown = (candle: Candle, currency: string) => ({
      t: candle.t / 1000,
      ...Object.fromEntries((['o', 'h', 'l', 'c'] as const).map(m => [m, converted(candle[m], currency, candle.t)])),
      v: candle.v,
      q: candle.q,
      providers: candle.providers,
    })

    async function read(parameters: string, as: 'free' | 'pro' = 'pro') {
      const answer = await scenario.ask(`/v1/prices/candles?${parameters}`, { as })
      expect(answer.status, answer.text).to.equal(200)
      const body = candlesReply.parse(answer.body)
      return { ...body, start: Date.parse(body.meta.start), end: Date.parse(body.meta.end) }
    }

    for (const [interval, ms] of Object.entries(INTERVALS))
      for (const currency of ['USD', 'EUR'])
        it(`of ${interval} in ${currency} are those of the changes`, async () => {
          const { item_id, market_hash_name } = scenario.items.full
          const start = iso(Math.floor((now - 5 * DAY_MS) / DAY_MS) * DAY_MS)
          const { meta, data, end } = await read(
            `item_id=${item_id}&interval=${interval}&currency=${currency}&start=${start}`,
          )
          const expected = modelCandles(asks(item_id), ms).filter(one => one.t >= Date.parse(start) && one.t < end)
          expect(data).to.deep.equal(expected.map(candle => shown(candle, currency)))
          expect(data.length).to.be.greaterThan(3)
          expect(meta).to.include({
            item_id,
            market_hash_name,
            phase: null,
            provider: 'All Providers',
            interval,
            currency,
          })
        })

    it('on free are those of whole days', async () => {
      const { item_id } = scenario.items.full
      const { data, start, end } = await read(`item_id=${item_id}&lookback=5&fill=false`, 'free')
      expect(end - start).to.equal(5 * DAY_MS)
      const expected = modelCandles(asks(item_id), DAY_MS).filter(one => one.t >= start && one.t < end)
      expect(data).to.deep.equal(expected.map(candle => shown(candle, 'USD')))
    })

    it('fill empty buckets with the close before them', async () => {
      const { item_id } = scenario.items.full
      const { data, start, end } = await read(`item_id=${item_id}&interval=1h&lookback=3d&fill=true`)
      const buckets = Array.from({ length: (end - start) / INTERVALS['1h'] }, (_, i) => start + i * INTERVALS['1h'])
      expect(data.map(({ t }) => t * 1000)).to.deep.equal(buckets)
      const known = new Set(modelCandles(asks(item_id), INTERVALS['1h']).map(({ t }) => t / 1000))
      const filled = [...data.entries()].slice(1).filter(([, { t }]) => !known.has(t))
      expect(filled).not.to.deep.equal([])
      for (const [at, { o, h, l, c, v }] of filled)
        expect([o, h, l, c, v]).to.deep.equal([...Array(4).fill(data[at - 1]?.c), 0])
    })

    it('of a finish by its name hold the asks of all its phases side by side', async () => {
      const { finish, phases } = scenario.items
      const start = iso(Math.floor((now - 5 * DAY_MS) / DAY_MS) * DAY_MS)
      const name = encodeURIComponent(finish.market_hash_name)
      const { data, meta, end } = await read(`market_hash_name=${name}&interval=1d&start=${start}`)
      expect(meta).to.include({ item_id: finish.item_id, phase: null })
      const together = [finish, ...phases].flatMap(item =>
        asks(item.item_id).map(change => ({ ...change, provider: `${change.provider}#${item.item_id}` })),
      )
      const expected = modelCandles(together, DAY_MS)
        .filter(one => one.t >= Date.parse(start) && one.t < end)
        .map(candle => {
          const keys = Object.entries(candle.providers).map(([edge, key]) => [edge, key.split('#')[0]])
          return shown({ ...candle, providers: Object.fromEntries(keys) as Candle['providers'] }, 'USD')
        })
      expect(data).to.deep.equal(expected)
    })
  })

  describe('GET /prices/history', () => {
    const order = (a: StoredChange, b: StoredChange): number =>
      b.seen_at - a.seen_at ||
      b.item_id - a.item_id ||
      (a.provider < b.provider ? 1 : a.provider > b.provider ? -1 : b.offset - a.offset)

    function recordsOf(fits: (change: StoredChange) => boolean, currency = 'USD') {
      return changes
        .filter(change => change.side === 'ask' && change.change !== 'removed' && fits(change))
        .sort(order)
        .map(change => {
          const item = scenario.catalog.find(one => one.item_id === change.item_id)
          const micro = change.price_micro_usd as number
          return {
            item_id: change.item_id,
            market_hash_name: item?.market_hash_name,
            phase: item?.phase,
            provider: scenario.providers.find(one => one.key === change.provider)?.display_name,
            time: iso(change.seen_at),
            price: change.currency === currency ? change.price : converted(micro, currency, change.seen_at),
            currency,
            quantity: change.quantity,
          }
        })
    }

    for (const currency of ['USD', 'EUR', 'CNY'])
      it(`of an item in ${currency}, newest first, page by page`, async () => {
        const { item_id } = scenario.items.full
        const expected = recordsOf(change => change.item_id === item_id, currency)
        for (const limit of [1000, 17]) {
          expect(await pages(`/prices/history?item_id=${item_id}&currency=${currency}&limit=${limit}`)).to.deep.equal(
            expected,
          )
        }
        expect(expected.length).to.be.greaterThan(20)
      })

    it('of a finish by its name, of one phase, and of one provider', async () => {
      const { finish, phases } = scenario.items
      const ids = [finish, ...phases].map(item => item.item_id)
      const name = `market_hash_name=${encodeURIComponent(finish.market_hash_name)}`
      expect(await pages(`/prices/history?${name}&limit=1000`)).to.deep.equal(
        recordsOf(change => ids.includes(change.item_id)),
      )
      const [phase] = phases
      const ofPhase = recordsOf(change => change.item_id === phase?.item_id)
      expect(await pages(`/prices/history?${name}&phase=${encodeURIComponent(phase?.phase ?? '')}`)).to.deep.equal(
        ofPhase,
      )
      const ofProvider = recordsOf(change => ids.includes(change.item_id) && change.provider === 'provider_07')
      expect(await pages(`/prices/history?${name}&provider=provider_07&limit=50`)).to.deep.equal(ofProvider)
    })

    it('from start (included) to end (excluded)', async () => {
      const { item_id } = scenario.items.full
      const own = changes.filter(change => change.item_id === item_id && change.side === 'ask').sort(order)
      const [end, start] = [own[10]?.seen_at as number, own[60]?.seen_at as number]
      const found = await pages(`/prices/history?item_id=${item_id}&start=${iso(start)}&end=${iso(end)}&limit=9`)
      expect(found).to.deep.equal(
        recordsOf(change => change.item_id === item_id && change.seen_at >= start && change.seen_at < end),
      )
    })

    it('keeps its pages while records are added', async () => {
      const { item_id } = scenario.items.full
      const expected = recordsOf(change => change.item_id === item_id)
      const [last] = changes.filter(change => change.item_id === item_id && change.side === 'ask').sort(order)
      const found = await pages(`/prices/history?item_id=${item_id}&limit=40`, async page => {
        const added = { ...(last as StoredChange), seen_at: Date.now(), offset: 1_000_000 + page }
        await storeChanges(clickhouse, [added])
      })
      expect(found).to.deep.equal(expected)
    })
  })

  describe('GET /sales', () => {
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
            price: sale.currency === currency ? sale.price : converted(sale.price_micro_usd, currency, sale.sold_at),
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

    it('of all items, newest first, page by page', async () => {
      const expected = recordsOf(isShown)
      expect(await pages('/sales?limit=1000')).to.deep.equal(expected)
      expect(await pages('/sales?limit=61')).to.deep.equal(expected)
    })

    it('in another currency, at the rate of the day of each', async () => {
      expect(await pages('/sales?currency=EUR')).to.deep.equal(recordsOf(isShown, 'EUR'))
    })

    it('of an item by id, by name and by phase', async () => {
      const { full, finish, phases } = scenario.items
      const { item_id, market_hash_name } = full
      expect(await pages(`/sales?item_id=${item_id}&phase=Ruby`)).to.deep.equal(
        recordsOf(sale => isShown(sale) && sale.item_id === item_id),
      )
      expect(await pages(`/sales?market_hash_name=${encodeURIComponent(market_hash_name)}&limit=13`)).to.deep.equal(
        recordsOf(sale => isShown(sale) && sale.item_id === item_id),
      )
      const ids = [finish, ...phases].map(item => item.item_id)
      expect(await pages(`/sales?market_hash_name=${encodeURIComponent(finish.market_hash_name)}`)).to.deep.equal(
        recordsOf(sale => isShown(sale) && ids.includes(sale.item_id)),
      )
      const { phase } = phases[0] as { phase: string }
      const ofPhase = scenario.catalog.filter(item => item.phase === phase).map(item => item.item_id)
      expect(await pages(`/sales?phase=${encodeURIComponent(phase)}`)).to.deep.equal(
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
        expect(await pages(`/sales?${query}`)).to.deep.equal(expected)
        const aFifth = Math.ceil((expected.length + 1) / 5)
        expect(await pages(`/sales?${query}&limit=${aFifth}`)).to.deep.equal(expected)
      })

    it('keeps its pages while sales are added', async () => {
      const expected = recordsOf(isShown)
      const itemIds = [scenario.items.full.item_id]
      const found = await pages('/sales?limit=100', async page => {
        if (page > 0) return
        const added = makeSales(scenario.random, { itemIds, providers: PROVIDERS, now, days: 1, count: 5 })
        const late = added.map((sale, i) => ({ ...sale, sold_at: now + i, sale_id: `late-${i}` }))
        await storeSales(clickhouse, late, 10_000)
      })
      expect(found).to.deep.equal(expected)
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
  })
})
