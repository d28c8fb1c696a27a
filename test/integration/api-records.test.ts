/** GET /prices/candles and /prices/history against the plain records that were stored. */
import { expect } from 'chai'
import { candlesReply } from '#schemas/api/candles.ts'
import { historyReply } from '#schemas/api/history.ts'
import { providersReply } from '#schemas/api/providers.ts'
import type { Candle } from '#streams/candles/reader.ts'
import { healthKey, type StoredHealth } from '#streams/provider-health/table.ts'
import {
  convertedAt,
  makeChanges,
  makeRateDays,
  type StoredChange,
  storeChanges,
  storeRates,
} from '#test/fixtures/api-records.ts'
import { type ApiScenario, openApiScenario } from '#test/fixtures/api-scenario.ts'
import { useClickhouse } from '#test/fixtures/use-clickhouse.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { modelCandles } from '#test/oracles/candle-model.ts'

const DAY = 86_400_000
const INTERVALS = { '5m': 300_000, '1h': 3_600_000, '1d': DAY }
const PROVIDERS = ['provider_02', 'provider_03', 'provider_07', 'provider_12', 'provider_41']
const iso = (instant: number): string => new Date(instant).toISOString()

describe('stored records', () => {
  const platform = useServers()
  const clickhouse = useClickhouse(platform)
  const now = Date.now()
  let scenario: ApiScenario
  let changes: StoredChange[]
  const rateDays = makeRateDays(now)

  before('records behind the service', async () => {
    scenario = await openApiScenario(platform, 0)
    const { items, random } = scenario
    const itemIds = [items.full, items.finish, ...items.phases].map(item => item.item_id)
    changes = makeChanges(random, { itemIds, providers: PROVIDERS, now, days: 8, count: 1_500 })
    await storeChanges(clickhouse, changes)
    await storeRates(clickhouse, rateDays)
  })
  after('end of the market', () => scenario.close())

  const converted = (micro: number, currency: string, at: number) => convertedAt(rateDays, micro, currency, at)

  it('of health make a provider up, and those of rates keep the digits of their source', async () => {
    const now = Date.now()
    const health: StoredHealth = {
      ...{ last_completed_at: now, last_checked_at: now, consecutive_failures: 0, quarantined_reason: null, sides: {} },
      ...{ total_offers: 12, unique_items: 7, total_value: 5_000, total_value_usd: 700, currency: 'CNY' },
    }
    await scenario.redis.hset(healthKey(platform.namespace), 'provider_02', JSON.stringify(health))
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
          const start = iso(Math.floor((now - 5 * DAY) / DAY) * DAY)
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
      expect(end - start).to.equal(5 * DAY)
      const expected = modelCandles(asks(item_id), DAY).filter(one => one.t >= start && one.t < end)
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
      const start = iso(Math.floor((now - 5 * DAY) / DAY) * DAY)
      const name = encodeURIComponent(finish.market_hash_name)
      const { data, meta, end } = await read(`market_hash_name=${name}&interval=1d&start=${start}`)
      expect(meta).to.include({ item_id: finish.item_id, phase: null })
      const together = [finish, ...phases].flatMap(item =>
        asks(item.item_id).map(change => ({ ...change, provider: `${change.provider}#${item.item_id}` })),
      )
      const expected = modelCandles(together, DAY)
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

    async function pages(parameters: string, onPage: (page: number) => Promise<void> = async () => {}) {
      const items: object[] = []
      let cursor = ''
      for (let page = 0; ; page++) {
        const answer = await scenario.ask(`/v1/prices/history?${parameters}${cursor}`)
        expect(answer.status, answer.text).to.equal(200)
        const body = historyReply.parse(answer.body)
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

    for (const currency of ['USD', 'EUR', 'CNY'])
      it(`of an item in ${currency}, newest first, page by page`, async () => {
        const { item_id } = scenario.items.full
        const expected = recordsOf(change => change.item_id === item_id, currency)
        for (const limit of [1000, 17]) {
          expect(await pages(`item_id=${item_id}&currency=${currency}&limit=${limit}`)).to.deep.equal(expected)
        }
        expect(expected.length).to.be.greaterThan(20)
      })

    it('of a finish by its name, of one phase, and of one provider', async () => {
      const { finish, phases } = scenario.items
      const ids = [finish, ...phases].map(item => item.item_id)
      const name = `market_hash_name=${encodeURIComponent(finish.market_hash_name)}`
      expect(await pages(`${name}&limit=1000`)).to.deep.equal(recordsOf(change => ids.includes(change.item_id)))
      const [phase] = phases
      const ofPhase = recordsOf(change => change.item_id === phase?.item_id)
      expect(await pages(`${name}&phase=${encodeURIComponent(phase?.phase ?? '')}`)).to.deep.equal(ofPhase)
      const ofProvider = recordsOf(change => ids.includes(change.item_id) && change.provider === 'provider_07')
      expect(await pages(`${name}&provider=provider_07&limit=50`)).to.deep.equal(ofProvider)
    })

    it('from start (included) to end (excluded)', async () => {
      const { item_id } = scenario.items.full
      const own = changes.filter(change => change.item_id === item_id && change.side === 'ask').sort(order)
      const [end, start] = [own[10]?.seen_at as number, own[60]?.seen_at as number]
      const found = await pages(`item_id=${item_id}&start=${iso(start)}&end=${iso(end)}&limit=9`)
      expect(found).to.deep.equal(
        recordsOf(change => change.item_id === item_id && change.seen_at >= start && change.seen_at < end),
      )
    })

    it('keeps its pages while records are added', async () => {
      const { item_id } = scenario.items.full
      const expected = recordsOf(change => change.item_id === item_id)
      const [last] = changes.filter(change => change.item_id === item_id && change.side === 'ask').sort(order)
      const found = await pages(`item_id=${item_id}&limit=40`, async page => {
        const added = { ...(last as StoredChange), seen_at: Date.now(), offset: 1_000_000 + page }
        await storeChanges(clickhouse, [added])
      })
      expect(found).to.deep.equal(expected)
    })

    it('takes no cursor but its own', async () => {
      const { item_id } = scenario.items.full
      const { body } = await scenario.ask(`/prices/history?item_id=${item_id}&limit=5`)
      const cursor = body.pagination.next_cursor
      const others = [
        `item_id=${scenario.items.finish.item_id}&cursor=${cursor}`,
        `item_id=${item_id}&provider=provider_07&cursor=${cursor}`,
      ]
      for (const query of [...others, `item_id=${item_id}&cursor=x${cursor}`, `item_id=${item_id}&cursor=abc`]) {
        const answer = await scenario.ask(`/prices/history?${query}`)
        expect(answer.status, query).to.equal(422)
        expect(answer.body.detail[0].loc).to.deep.equal(['query', 'cursor'])
      }
    })
  })

  it('are unavailable in a currency of which no day is known', async () => {
    for (const path of ['/prices/candles?interval=1h', '/prices/history?limit=1']) {
      const { status, body } = await scenario.ask(`${path}&item_id=${scenario.items.full.item_id}&currency=VEF`)
      expect([status, body.code], path).to.deep.equal([503, 'SERVICE_UNAVAILABLE'])
    }
  })
})
