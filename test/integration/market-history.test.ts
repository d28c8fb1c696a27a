import { mkdtempSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect } from 'chai'
import type { z } from 'zod'
import { loadCatalog } from '#infra/config/catalog.ts'
import { loadProviders } from '#infra/config/providers.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { openPublisher } from '#infra/kafka/publisher.ts'
import { candlesReply } from '#schemas/api/candles.ts'
import { historyChartReply } from '#schemas/api/history.ts'
import { indicatorsReply } from '#schemas/api/indicators.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { ingestHistory } from '#services/ingest/commands.ts'
import { packagedRates } from '#services/ingest/fx/rates.ts'
import { openHistoryFold } from '#streams/history/fold.ts'
import {
  convertedAt,
  makeChanges,
  makeRateDays,
  type RateDays,
  type StoredChange,
  storeRates,
} from '#test/fixtures/api-records.ts'
import { type ApiScenario, openApiScenario } from '#test/fixtures/api-scenario.ts'
import { changeOf } from '#test/fixtures/book-change-sequences.ts'
import { changeRecord, write } from '#test/fixtures/sink-records.ts'
import { useClickhouse } from '#test/fixtures/use-clickhouse.ts'
import { eventually } from '#test/harness/eventually.ts'
import { readTopic } from '#test/harness/read-topic.ts'
import { useServers } from '#test/harness/use-servers.ts'

const FILED = 'provider_02'

type Chart = z.infer<typeof historyChartReply>

describe('daily history', () => {
  const platform = useServers({ catalog: 'whole' })
  const clickhouse = useClickhouse(platform)
  /** By the API's clock: midnight must not pass. */
  const now = Date.now()
  const today = Math.floor(now / DAY_MS) * DAY_MS
  const day = (ago: number): string => new Date(today - ago * DAY_MS).toISOString().slice(0, 10)
  const second = (ago: number): number => (today - ago * DAY_MS) / 1000
  let rateDays: RateDays
  let scenario: ApiScenario
  let kafka: KafkaConnection
  let spaced: CatalogItem
  let ruby: CatalogItem

  before('a service and the owners of daily tables', async () => {
    scenario = await openApiScenario(platform, 0, {}, () => now)
    kafka = platform.connect()
    const before = makeRateDays(now)
    await storeRates(clickhouse, before)
    rateDays = { ...before, ...scenario.rateDays }
    await platform.startRoles(['history', 'candles'])
    const catalog = loadCatalog()
    spaced = catalog.find(item => item.market_hash_name.includes('  ')) as CatalogItem
    ruby = catalog.find(item => item.phase === 'Ruby') as CatalogItem
  })
  after('end of the market', () => scenario.close())

  async function chart(parameters: string): Promise<Chart> {
    const answer = await scenario.ask(`/v1/market/history/chart?${parameters}`)
    expect(answer.status, answer.text).to.equal(200)
    return historyChartReply.parse(answer.body)
  }
  const ingest = async (lines: readonly string[], isZipped = false) => {
    const file = join(mkdtempSync(join(platform.config.stateDir, 'history-')), 'closes.csv')
    const text = `market_hash_name,date,price_minor,currency,listings\n${lines.join('\n')}\n`
    writeFileSync(file, isZipped ? gzipSync(text) : text)
    const publisher = await openPublisher(kafka, 'ingest')
    try {
      return await ingestHistory({
        kafka,
        publisher,
        file,
        report: () => undefined,
        signal: new AbortController().signal,
        providerOf: () => FILED,
      })
    } finally {
      await publisher.close()
    }
  }
  const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

  describe('from a file', () => {
    const lines = (): string[] => {
      const { full, finish } = scenario.items
      return [
        `${quoted(full.market_hash_name)},${day(1200)},1000,CNY,`,
        `${quoted(full.market_hash_name)},${day(900)},1100,CNY,40`,
        `${quoted(full.market_hash_name)},${day(6)},1500,CNY,30`,
        `${quoted(full.market_hash_name)},${day(3)},1300,CNY,25`,
        `${quoted(full.market_hash_name)},not a day,1300,CNY,25`,
        `${quoted(full.market_hash_name)},${day(2)},free,CNY,25`,
        `${quoted(spaced.market_hash_name.replaceAll('  ', ' '))},${day(10)},500,CNY,1`,
        `${quoted(`${ruby.market_hash_name} Ruby`)},${day(10)},90000,CNY,2`,
        `${quoted(`${finish.market_hash_name} Tier9`)},${day(10)},90000,CNY,2`,
      ]
    }
    const filed = ['provider_02']

    it('is published once per close, with what is wrong counted', async () => {
      const totals = await ingest(lines())
      expect(totals).to.deep.include({ provider: FILED, names: 4, closes: 7 })
      expect([...totals.rejected]).to.deep.equal([
        ['date_invalid', 1],
        ['price_invalid', 1],
      ])
      const last = async () => (await chart(`item_id=${ruby.item_id}`)).meta.providers.length === 1
      await eventually(last, 'the closes in the chart')
    })

    const expectChart = async (): Promise<void> => {
      const { item_id: id } = scenario.items.full
      const { meta, series } = await chart(`item_id=${id}&start=${day(1300)}&currency=CNY`)
      expect(meta.providers).to.deep.equal(filed)
      const data = series[0]?.data ?? []
      // Carried from close to close; nothing after the last, of which the file has no more.
      expect(data.map(({ t }) => t)).to.deep.equal(Array.from({ length: 1198 }, (_, i) => second(1200 - i)))
      const at = (ago: number) => data.find(({ t }) => t === second(ago))
      expect(at(1200)).to.deep.equal({ t: second(1200), price: 1000, qty: null })
      expect(at(901)).to.deep.equal({ t: second(901), price: 1000, qty: null })
      expect(at(900)).to.deep.equal({ t: second(900), price: 1100, qty: 40 })
      expect(at(7)).to.deep.equal({ t: second(7), price: 1100, qty: 40 })
      expect(at(5)).to.deep.equal({ t: second(5), price: 1500, qty: 30 })
      expect(at(3)).to.deep.equal({ t: second(3), price: 1300, qty: 25 })
    }

    it('shows for years, carried from close to close and not beyond the last', expectChart)

    it('finds names in which blanks differ, and phases at their ends', async () => {
      for (const [item, price] of [
        [spaced, 500],
        [ruby, 90_000],
      ] as const) {
        const { series } = await chart(`item_id=${item.item_id}&currency=CNY`)
        expect(series).to.deep.equal([
          { provider: FILED, data: [{ t: second(10), price, qty: item === ruby ? 2 : 1 }] },
        ])
      }
      const unresolved = async () => (await readTopic(kafka, 'unresolved')).map(({ value }) => value)
      const found = await eventually(async () => (await unresolved()).find(({ group }) => group.endsWith('history')))
      expect(found).to.include({ market_hash_name: `${scenario.items.finish.market_hash_name} Tier9`, provider: FILED })
      expect((await unresolved()).filter(({ group }) => group.endsWith('candles'))).to.deep.equal([])
    })

    it('makes daily candles of the days that are kept', async () => {
      const { item_id: id } = scenario.items.full
      const read = async () => {
        const query = `item_id=${id}&interval=1d&start=${day(20)}&currency=USD`
        const { body } = await scenario.ask(`/v1/prices/candles?${query}`)
        const { data } = candlesReply.parse(body)
        return data.length === 2 ? data : undefined
      }
      const [first, next] = await eventually(read, 'two candles')
      const usd = (minor: number) => Math.round(minor / Number(rate))
      const rate = (await packagedRates()).rateOf('CNY')?.text
      expect(first).to.deep.include({
        t: second(6),
        o: usd(1100),
        h: usd(1500),
        l: usd(1100),
        c: usd(1500),
        v: 10,
        q: 30,
      })
      expect(next).to.deep.include({ t: second(3), o: usd(1500), h: usd(1500), l: usd(1300), c: usd(1300), v: 5, q: 0 })
    })

    it('changes nothing when it is published again, gzipped', async () => {
      const before = (await chart(`item_id=${scenario.items.full.item_id}&start=${day(1300)}`)).series
      await ingest(lines(), true)
      const seen = async () =>
        (await readTopic(kafka, 'unresolved')).filter(({ value }) => value.group.endsWith('history')).length
      await eventually(async () => (await seen()) === 2, 'the file a second time')
      await expectChart()
      expect((await chart(`item_id=${scenario.items.full.item_id}&start=${day(1300)}`)).series).to.deep.equal(before)
    })

    it('gives way to what the book saw of the same day', async () => {
      const { unlisted } = scenario.items
      await ingest([
        `${quoted(unlisted.market_hash_name)},${day(4)},700,CNY,3`,
        `${quoted(unlisted.market_hash_name)},${day(2)},800,CNY,4`,
      ])
      await eventually(async () => (await chart(`item_id=${unlisted.item_id}`)).series[0]?.data.length === 3)
      const change = {
        ...changeOf({
          provider: FILED,
          itemId: unlisted.item_id,
          seenAt: today - 4 * DAY_MS + 5,
          after: { micro: 930_000, quantity: 3 },
        }),
        price: 650,
        currency: 'CNY',
      }
      await write(openHistoryFold(clickhouse.batcher), [changeRecord(change, 7)])
      const { series } = await chart(`item_id=${unlisted.item_id}&currency=CNY`)
      expect(series[0]?.data.map(({ price }) => price)).to.deep.equal([650, 650, 800])
    })

    it('shows a provider that has shut down only when it is asked for', async () => {
      const providers = loadProviders().all.map(provider => ({ ...provider, is_defunct: provider.key === FILED }))
      const file = join(platform.config.stateDir, 'defunct.json')
      writeFileSync(file, JSON.stringify({ providers }))
      const { baseUrl, stop } = await platform.startRoles(['api'], { providersFile: file })
      const ask = async (more: string) => {
        const query = `item_id=${scenario.items.full.item_id}&start=${day(1300)}${more}`
        const answer = await fetch(`${baseUrl}/v1/market/history/chart?${query}`, {
          headers: { authorization: `Bearer ${scenario.keys.quant}` },
        })
        return historyChartReply.parse(await answer.json()).meta.providers
      }
      expect(await ask('')).to.deep.equal([])
      expect(await ask(`&providers=${FILED}`)).to.deep.equal([])
      expect(await ask('&include_defunct=true')).to.deep.equal([FILED])
      await stop()
    })
  })

  describe('of live changes', () => {
    const PROVIDERS = ['provider_07', 'provider_12', 'provider_41']
    let changes: StoredChange[]
    let ids: number[]

    before('changes of 60 days', async () => {
      const { finish, phases } = scenario.items
      ids = [finish, ...phases.slice(0, 2)].map(item => item.item_id)
      const scope = { itemIds: ids, providers: PROVIDERS, now, days: 60 }
      changes = makeChanges(scenario.random, { ...scope, count: 400 })
      await write(
        openHistoryFold(clickhouse.batcher),
        changes.map(change => changeRecord(change, change.offset, change.partition)),
      )
    })

    /** Day by day: what was listed at its end, or was withdrawn in it. */
    function modelDays(itemId: number, provider: string, from: number, to: number) {
      const own = changes.filter(one => one.item_id === itemId && one.provider === provider && one.side === 'ask')
      const points: { t: number; micro: number; native: number; currency: string; qty: number }[] = []
      for (let start = from; start < to; start += DAY_MS) {
        const until = own.filter(({ seen_at }) => seen_at < start + DAY_MS)
        const last = until.at(-1)
        const isToday = last !== undefined && last.seen_at >= start
        const priced = until.findLast(({ price }) => price !== null)
        if (!last || !priced || (last.price === null && !isToday)) continue
        const { price_micro_usd: micro, price: native, currency } = priced
        points.push({ t: start / 1000, micro: micro as number, native: native as number, currency, qty: last.quantity })
      }
      return points
    }

    for (const currency of ['USD', 'EUR', 'CNY'])
      it(`has one point per provider and day, in ${currency}`, async () => {
        const from = today - 50 * DAY_MS
        for (const itemId of ids) {
          const { series, meta } = await chart(`item_id=${itemId}&start=${day(50)}&currency=${currency}`)
          const expected = PROVIDERS.map(provider => ({
            provider,
            data: modelDays(itemId, provider, from, today + DAY_MS).map(({ t, micro, native, currency: own, qty }) => ({
              t,
              price: own === currency ? native : convertedAt(rateDays, micro, currency, t * 1000),
              qty,
            })),
          })).filter(({ data }) => data.length > 0)
          expect(series).to.deep.equal(expected)
          expect(meta).to.include({ item_id: itemId, currency })
          expect(meta.start).to.equal(`${day(50)}T00:00:00.000Z`)
        }
      })

    it('keeps to a window and to the providers asked for', async () => {
      const [itemId] = ids as [number]
      const window = await chart(`item_id=${itemId}&start=${day(30)}&end=${day(20)}&providers=provider_12`)
      const expected = modelDays(itemId, 'provider_12', today - 30 * DAY_MS, today - 20 * DAY_MS).map(({ t }) => t)
      expect(window.series.flatMap(({ data }) => data.map(({ t }) => t))).to.deep.equal(expected)
      const lookback = await chart(`item_id=${itemId}&lookback=5&start=${day(50)}`)
      expect(Date.parse(lookback.meta.end) - Date.parse(lookback.meta.start)).to.be.oneOf([5 * DAY_MS, 6 * DAY_MS])
      for (const wrong of [`item_id=${itemId}&start=${day(1)}&end=${day(5)}`, 'start=2026-01-01'])
        expect((await scenario.ask(`/v1/market/history/chart?${wrong}`)).status, wrong).to.equal(422)
    })

    it("of a finish takes each provider's cheapest phase, listings together", async () => {
      const { finish, phases } = scenario.items
      const all = [finish, ...phases].map(item => item.item_id)
      const { series } = await chart(
        `market_hash_name=${encodeURIComponent(finish.market_hash_name)}&start=${day(50)}&providers=provider_07`,
      )
      const days = Map.groupBy(
        all.flatMap(id => modelDays(id, 'provider_07', today - 50 * DAY_MS, today + DAY_MS)),
        ({ t }) => t,
      )
      const expected = [...days]
        .sort(([a], [b]) => a - b)
        .map(([t, points]) => ({
          t,
          price: convertedAt(rateDays, Math.min(...points.map(({ micro }) => micro)), 'USD', t * 1000),
          qty: points.reduce((sum, { qty }) => sum + qty, 0),
        }))
      expect(series[0]?.data.map(({ t, qty }) => ({ t, qty }))).to.deep.equal(
        expected.map(({ t, qty }) => ({ t, qty })),
      )
    })
  })

  describe('indicators', () => {
    const read = async (parameters: string) => {
      const answer = await scenario.ask(`/v1/market/indicators?${parameters}`)
      expect(answer.status, answer.text).to.equal(200)
      return indicatorsReply.parse(answer.body)
    }

    it('rest on completed candles, gaps filled forward', async () => {
      const { meta, data } = await read(`item_id=${scenario.items.full.item_id}`)
      expect(meta).to.include({ interval: '1d', currency: 'USD', provider: 'All Providers', data_source: 'live' })
      expect(data.coverage).to.deep.include({ candle_count: 365, insufficient_for: [] })
      expect(data.coverage.last_bucket).to.equal(`${day(1)}T00:00:00.000Z`)
      const rates = await packagedRates()
      const usd = (minor: number): number => minor / 100 / Number(rates.rateOf('CNY')?.text)
      // Two weeks at 1100, three days at 1500, three at 1300.
      expect(data.momentum.sma_20).to.be.closeTo(usd((14 * 1100 + 3 * 1500 + 3 * 1300) / 20), 1e-6)
      expect(data.close_price_usd).to.equal(usd(1300).toFixed(2))
      const volumes = [10, 5]
      expect(data.volume.obv).to.equal((volumes[0] as number) - (volumes[1] as number))
      const inYuan = await read(`item_id=${scenario.items.full.item_id}&currency=CNY`)
      const today = Number(Object.values(rateDays).at(-1)?.CNY)
      const factor = (inYuan.data.momentum.bb_upper as number) / (data.momentum.bb_upper as number)
      expect(factor).to.be.within(5, 8).and.closeTo(today, 1)
      expect(inYuan.data.close_price_usd).to.equal(data.close_price_usd)
    })

    it('are null where history is short', async () => {
      const { data } = await read(`item_id=${spaced.item_id}`)
      expect(data.coverage).to.deep.include({ candle_count: 10, sufficient_for: ['obv'] })
      expect(data.coverage.insufficient_for).to.include.members(['rsi_14', 'sma_20'])
      expect(data.momentum.rsi_14).to.equal(null)
      const empty = await read('item_id=13&interval=1h')
      expect(empty.data).to.deep.include({ close_price_usd: null })
      expect(empty.data.coverage.candle_count).to.equal(0)
      expect((await scenario.ask('/v1/market/indicators')).status).to.equal(422)
    })
  })
})
