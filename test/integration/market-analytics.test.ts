import { expect } from 'chai'
import type { z } from 'zod'
import { loadAnalytics } from '#infra/config/analytics.ts'
import { loadCatalog } from '#infra/config/catalog.ts'
import { loadProviders } from '#infra/config/providers.ts'
import { loadSupply } from '#infra/config/supply.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import { arbitrageReply } from '#schemas/api/arbitrage.ts'
import { indexesReply, marketItemReply, marketItemsReply } from '#schemas/api/market.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { DAY_MS, HOUR_MS } from '#schemas/values/instant.ts'
import { start as startApi } from '#services/api/main.ts'
import { type StoredSale, storeSales } from '#test/fixtures/api-records.ts'
import { PROVIDERS, publishMarket, startBelowMarket } from '#test/fixtures/real-market.ts'
import { useClickhouse } from '#test/fixtures/use-clickhouse.ts'
import { eventually } from '#test/harness/eventually.ts'
import { keysOfTiers, openScenario, type Scenario } from '#test/harness/scenario.ts'
import { randomOf, seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { dollars, percentOf } from '#test/oracles/exact-amounts.ts'
import { bruteForcePairs, type MarketModel, type ModelQuote, modelScores } from '#test/oracles/market-model.ts'

type ItemRow = z.infer<typeof marketItemsReply>['data']['items'][number]

describe('market analytics on real refreshes', () => {
  const platform = useServers({ catalog: 'whole' })
  const clickhouse = useClickhouse(platform)
  const random = seededRandom('market analytics')
  const supply = loadSupply()
  const reference = loadAnalytics().liquidity
  let scenario: Scenario
  let model: MarketModel
  /** By the API's clock, which stands before any snapshot until a test says otherwise. */
  let now: number
  let sales: StoredSale[]
  const fees = new Map(loadProviders().all.map(provider => [provider.key, provider.fees]))

  before('the market behind the service', async () => {
    now = Date.now()
    const { providersFile } = await startBelowMarket(platform)
    model = await publishMarket(platform, now)
    sales = salesOf(model.itemIds.slice(0, 40))
    await storeSales(clickhouse, sales)
    const api: StartRole = context => startApi(context, () => now)
    const config = { providersFile }
    scenario = await openScenario(platform, {
      roles: ['market-summary', api],
      config,
      keys: await keysOfTiers(platform),
    })
    await eventually(async () => (await get('/v1/market/items')).status === 200, 'a summary')
    await eventually(async () => (await get('/v1/market/arbitrage')).status === 200, 'a snapshot')
  })

  after(() => scenario?.close())

  /** Of a seed: a summary must hold some of each score. */
  function salesOf(itemIds: readonly number[], fixed = randomOf(1)): StoredSale[] {
    return Array.from({ length: 400 }, (_, i) => ({
      item_id: fixed.pick(itemIds),
      sold_at: now - fixed.integer(60_000, 40 * HOUR_MS),
      provider: i % 5 === 0 ? 'provider_04' : reference.sales_reference,
      sale_id: `s${i}`,
      price: 100,
      currency: 'USD',
      price_micro_usd: 1_000_000,
      float: null,
      paint_seed: null,
      stickers: null,
      charms: null,
      inspect_in_game: null,
      screenshot_front: null,
    }))
  }

  const get = (path: string) => scenario.ask(path)
  async function read<T>(path: string, schema: z.ZodType<T>): Promise<T> {
    const { status, body, text } = await get(path)
    expect(status, text.slice(0, 300)).to.equal(200)
    return schema.parse(body)
  }

  const isDown = (provider: string): boolean => provider === PROVIDERS.lost
  const countsInSummary = (asOf: number) => (quote: ModelQuote) =>
    !isDown(quote.provider) && asOf - quote.updatedAt <= DAY_MS
  const countsInArbitrage = (asOf: number) => (_: Side, quote: ModelQuote) =>
    !isDown(quote.provider) && quote.provider !== PROVIDERS.heldBack && asOf - quote.updatedAt <= HOUR_MS

  describe('arbitrage', () => {
    async function everyPair(filters: string) {
      for (;;) {
        const items: z.infer<typeof arbitrageReply>['data']['items'] = []
        const moments = new Set<string>()
        for (let offset = 0; ; offset += 1000) {
          const page = await read(`/v1/market/arbitrage?limit=1000&offset=${offset}${filters}`, arbitrageReply)
          moments.add(page.meta.generated_at)
          items.push(...page.data.items)
          if (!page.pagination.has_next)
            return { items, asOf: Date.parse(page.meta.generated_at), meta: page.meta, moments }
          // A newer snapshot has an order of its own: the pages so far belong to the one before.
          if (moments.size > 1) break
        }
      }
    }
    for (const [name, filters, isWanted] of [
      ['all pairs with a spread of one percent', '', () => true],
      ['all profitable pairs', '&min_spread_pct=-5', () => true],
      [
        'the pairs of chosen providers',
        `&min_spread_pct=0&providers_buy=${PROVIDERS.seller}&providers_sell=${PROVIDERS.other}`,
        (buy: string, sell: string) => buy === PROVIDERS.seller && sell === PROVIDERS.other,
      ],
    ] as const)
      it(`holds ${name}, best first, as a brute force finds them`, async () => {
        const { items, asOf } = await everyPair(filters)
        const least = /min_spread_pct=(-?\d+)/.exec(filters)?.[1] ?? '1'
        const expected = bruteForcePairs(
          model,
          countsInArbitrage(asOf),
          provider => fees.get(provider) as never,
        ).filter(
          ({ buy, sell }) =>
            (sell.micro - buy.micro) / buy.micro >= Number(least) / 100 && isWanted(buy.provider, sell.provider),
        )
        expect(items.length).to.equal(expected.length).and.above(100)
        const order = (a: { net: number; itemId: number; buy: ModelQuote; sell: ModelQuote }, b: typeof a) =>
          Math.abs(a.net - b.net) > 1e-3
            ? b.net - a.net
            : a.itemId - b.itemId || (a.buy.provider + a.sell.provider < b.buy.provider + b.sell.provider ? -1 : 1)
        const shown = expected.sort(order).map(({ itemId, buy, sell, fees: cost, net }) => ({
          item_id: itemId,
          buy_provider: buy.provider,
          sell_provider: sell.provider,
          buy_price_usd: dollars(buy.micro),
          sell_price_usd: dollars(sell.micro),
          estimated_fees_usd: dollars(cost),
          net_profit_usd: dollars(net),
          gross_spread_pct: Math.round(((sell.micro - buy.micro) / buy.micro) * 1e6) / 1e4,
          quantity: Math.min(buy.quantity, sell.quantity),
          last_updated: new Date(Math.max(buy.updatedAt, sell.updatedAt)).toISOString(),
          buy_last_updated: new Date(buy.updatedAt).toISOString(),
          sell_last_updated: new Date(sell.updatedAt).toISOString(),
        }))
        expect(items.map(({ market_hash_name, phase, ...rest }) => rest)).to.deep.equal(shown)
      })

    it('reports how many quotes took no part and why', async () => {
      const { meta, asOf } = await everyPair('')
      const quotes = model.itemIds.flatMap(itemId => [
        ...model.quotesOf('ask', itemId),
        ...model.quotesOf('bid', itemId),
      ])
      const of = (provider: string) => quotes.filter(quote => quote.provider === provider)
      expect(meta.excluded).to.deep.equal({
        down: of(PROVIDERS.lost).length,
        quarantined: of(PROVIDERS.heldBack).length,
        stale: of(PROVIDERS.slow).filter(({ updatedAt }) => asOf - updatedAt > HOUR_MS).length,
      })
      expect(Math.min(...Object.values(meta.excluded))).to.be.above(50)
    })

    it('pages by offset, and refuses a cursor', async () => {
      const { pagination } = await read('/v1/market/arbitrage?limit=37', arbitrageReply)
      expect(pagination).to.deep.equal({ limit: 37, offset: 0, total: -1, has_next: true, has_prev: false })
      const refused = await get('/v1/market/arbitrage?cursor=abc')
      expect([refused.status, refused.body.code]).to.deep.equal([400, 'CURSOR_NOT_SUPPORTED'])
      expect((await get(`/v1/market/arbitrage?providers_sell=${PROVIDERS.seller}`)).status).to.equal(422)
    })
  })

  describe('the summary', () => {
    let items: ItemRow[]
    let asOf: number
    before(async () => {
      const reply = await read('/v1/market/items', marketItemsReply)
      items = reply.data.items
      asOf = Date.parse(reply.meta.generated_at)
    })

    const usd = (micro: number | null): string | null => (micro === null ? null : dollars(micro))
    const rate = (now: number | null, then: number | null): number | null =>
      now === null || then === null ? null : percentOf(now - then, then)

    function expected(itemId: number) {
      const asks = model.quotesOf('ask', itemId).filter(countsInSummary(asOf))
      const bids = model.quotesOf('bid', itemId).filter(countsInSummary(asOf))
      const ask = asks.length === 0 ? null : Math.min(...asks.map(({ micro }) => micro))
      const bid = bids.length === 0 ? null : Math.max(...bids.map(({ micro }) => micro))
      const hour = Math.floor(asOf / HOUR_MS) * HOUR_MS
      const since = [asOf - DAY_MS, hour - 7 * DAY_MS, hour - 30 * DAY_MS]
      const then = since.map(moment => model.composite(itemId, moment))
      const diff = (before: number | null | undefined) => (ask === null || before == null ? null : usd(ask - before))
      const units = since.map(from => model.units(itemId, from, asOf))
      const own = {
        ask: asks.find(one => one.provider === reference.listings_reference),
        bid: bids.find(one => one.provider === reference.listings_reference),
      }
      const sold = sales.filter(
        sale => sale.item_id === itemId && sale.provider === reference.sales_reference && asOf - sale.sold_at < DAY_MS,
      )
      const scores = modelScores({
        n: asks.reduce((sum, one) => sum + one.quantity, 0),
        ask,
        bid,
        u: units[0] as number,
        closes: model.hourlyCloses(itemId, hour),
        reference: {
          s: sold.length,
          n: own.ask?.quantity ?? 0,
          ask: own.ask?.micro ?? null,
          bid: own.bid?.micro ?? null,
        },
      })
      const spreads = asks.flatMap(one => {
        const other = bids.find(({ provider }) => provider === one.provider)
        return other ? [(one.micro - other.micro) / one.micro] : []
      })
      const total = scores && Object.values(scores).reduce<number>((sum, part) => sum + (part ?? 0), 0)
      const units_ = supply.get(itemId) ?? null
      const marketcap = ask === null || units_ === null ? null : BigInt(ask) * BigInt(units_)
      return {
        best_ask_usd: usd(ask),
        best_bid_usd: usd(bid),
        supply: units_,
        marketcap: marketcap === null ? null : centsText((marketcap + 5_000n) / 10_000n),
        price_diff_24h: diff(then[0]),
        price_rate_24h: rate(ask, then[0] ?? null),
        price_diff_7d: diff(then[1]),
        price_rate_7d: rate(ask, then[1] ?? null),
        price_diff_30d: diff(then[2]),
        price_rate_30d: rate(ask, then[2] ?? null),
        sales_1d: units[0],
        total_volume_24h: units[0],
        sales_7d: units[1],
        sales_30d: units[2],
        liquidity: total === null ? null : Math.min(100, Math.max(0, Math.round(total))),
        listing_score: scores && Math.round(scores.listing),
        gap_score: scores && Math.round(scores.gap),
        volume_score: scores && Math.round(scores.volume),
        stability_score: scores?.stability == null ? null : Math.round(scores.stability),
        external_score: scores?.external == null ? null : Math.round(scores.external),
        provider_count: asks.length,
        avg_spread_pct:
          spreads.length === 0 ? null : Math.round((spreads.reduce((a, b) => a + b) / spreads.length) * 10_000) / 100,
        liquidity_last_updated: new Date(asOf).toISOString(),
      }
    }
    const centsText = (cents: bigint): string => `${cents / 100n}.${String(cents % 100n).padStart(2, '0')}`

    it('of every item with a quote equals its recomputation, every score part included', () => {
      const byId = new Map(items.map(row => [row.item_id, row]))
      for (const itemId of model.itemIds) {
        const { rank, ...summary } = (byId.get(itemId) as ItemRow).summary
        expect(rank).to.equal(byId.get(itemId)?.rank)
        expect(summary, `item ${itemId}`).to.deep.equal(expected(itemId))
      }
      const some = (has: (row: ItemRow['summary']) => boolean) => items.filter(({ summary }) => has(summary)).length
      expect(some(one => one.sales_1d > 0)).to.be.above(100)
      expect(some(one => one.stability_score !== null && one.price_diff_24h !== null)).to.be.above(100)
      expect(some(one => (one.external_score ?? 0) > 4)).to.be.above(10)
    })

    it('has a row per catalog item, by rank: marketcap descending, then nulls, ties by id', () => {
      const marketcap = ({ summary }: ItemRow): bigint => BigInt((summary.marketcap ?? '-0.01').replace('.', ''))
      expect(items.map(({ rank }) => rank)).to.deep.equal(items.map((_, i) => i + 1))
      for (let i = 1; i < items.length; i++) {
        const [one, next] = [items[i - 1] as ItemRow, items[i] as ItemRow]
        expect(marketcap(one) >= marketcap(next), `rank ${next.rank}`).to.equal(true)
        if (next.summary.marketcap === null && one.summary.marketcap === null)
          expect(one.item_id).to.be.below(next.item_id)
      }
      const unseen = items.find(row => !model.itemIds.includes(row.item_id))
      expect(unseen?.summary).to.include({ best_ask_usd: null, liquidity: null, listing_score: null, sales_1d: 0 })
    })

    for (const groupBy of ['item_type', 'weapon_type'] as const)
      it(`makes indexes by ${groupBy} that equal sums over the rows`, async () => {
        const reply = await read(`/v1/market/indexes?group_by=${groupBy}`, indexesReply)
        expect(reply.meta.group_by).to.equal(groupBy)
        const groups = Map.groupBy(loadCatalog(), item => item[groupBy] ?? 'Other')
        const recomputed = [...groups].map(([group, members]) => {
          const included = members.filter(({ item_id: id }) => {
            const counted = (side: 'ask' | 'bid') => model.quotesOf(side, id).filter(countsInSummary(asOf))
            const [asks, bids] = [counted('ask').map(({ micro }) => micro), counted('bid').map(({ micro }) => micro)]
            if (asks.length === 0 || bids.length === 0 || !supply.has(id)) return false
            return (Math.min(...asks) - Math.max(...bids)) / Math.min(...asks) <= 0.5
          })
          const sum = included.reduce((total, { item_id: id }) => {
            const ask = Math.min(
              ...model
                .quotesOf('ask', id)
                .filter(countsInSummary(asOf))
                .map(({ micro }) => micro),
            )
            return total + BigInt(ask) * BigInt(supply.get(id) ?? 0)
          }, 0n)
          return { group, sum, item_count: members.length, included_count: included.length }
        })
        recomputed.sort((a, b) => (a.sum === b.sum ? (a.group < b.group ? -1 : 1) : a.sum > b.sum ? -1 : 1))
        expect(reply.data.groups).to.deep.equal(
          recomputed.map(({ sum, ...one }) => ({
            group: one.group,
            marketcap_usd: centsText((sum + 5_000n) / 10_000n),
            item_count: one.item_count,
            included_count: one.included_count,
            excluded_count: one.item_count - one.included_count,
          })),
        )
        const total = recomputed.reduce((all, { sum }) => all + sum, 0n)
        expect(reply.data.total_marketcap_usd).to.equal(centsText((total + 5_000n) / 10_000n))
        expect(reply.data.groups[0]?.included_count).to.be.above(5)
      })

    it('of one item comes with its providers as they are now', async () => {
      const anomalous = model.itemIds.filter(itemId => model.hasBidAboveAsk(itemId)).slice(0, 3)
      const chosen = new Set([...anomalous, ...random.shuffle(model.itemIds).slice(0, 60)])
      let anomalies = 0
      for (const itemId of chosen) {
        const { data, meta } = await read(`/v1/market/items/${itemId}`, marketItemReply)
        expect(meta.data_source).to.equal('mixed')
        const isUp = countsInSummary(now)
        const asks = model.quotesOf('ask', itemId).filter(isUp)
        const providers = data.providers.map(({ provider }) => provider)
        expect(providers).to.deep.equal(asks.map(({ provider }) => provider).sort())
        for (const row of data.providers) {
          const isOfRow = ({ provider }: { provider: string }) => provider === row.provider
          const ask = asks.find(isOfRow) as ModelQuote
          const bid = model.quotesOf('bid', itemId).filter(isUp).find(isOfRow)
          const then = (days: number) => model.quotesOf('ask', itemId, now - days * DAY_MS).find(isOfRow)?.micro ?? null
          const past = (days: number) => (then(days) === null ? null : usd(ask.micro - (then(days) as number)))
          anomalies += row.bid_anomaly ? 1 : 0
          expect(row).to.deep.include({
            ask_usd: usd(ask.micro),
            bid_usd: bid ? usd(bid.micro) : null,
            ask_depth: ask.quantity,
            spread_usd: bid ? usd(ask.micro - bid.micro) : null,
            spread_pct: bid ? percentOf(ask.micro - bid.micro, ask.micro) : null,
            bid_depth: bid?.quantity ?? null,
            bid_anomaly: bid !== undefined && bid.micro > ask.micro,
            volume_24h: model.units(itemId, now - DAY_MS, now, row.provider),
            volume_7d: model.units(itemId, now - 7 * DAY_MS, now, row.provider),
            price_diff_24h: past(1),
            price_diff_7d: past(7),
            price_diff_30d: past(30),
            price_rate_24h: rate(ask.micro, then(1)),
            price_rate_30d: rate(ask.micro, then(30)),
          })
        }
        expect(data.coverage.provider_count).to.equal(data.providers.length)
      }
      expect(anomalies).to.be.above(0)
      expect((await get('/v1/market/items/999999999')).status).to.equal(404)
    })
  })

  // Last, since it moves the clock; pairs first, since pages are kept by it.
  it('say how old their figures are, in whole seconds, whatever was asked a moment before', async () => {
    const figures = async () => (await read('/v1/market/indexes', indexesReply)).meta
    const pairs = async () => (await read('/v1/market/arbitrage', arbitrageReply)).meta
    for (const ofMoment of [pairs, figures]) {
      const first = Date.parse((await ofMoment()).generated_at)
      for (const laterMs of [12_999, 13_000]) {
        now = first + laterMs
        const { generated_at, freshness_sec } = await ofMoment()
        // Of the same moment, unless the next one came meanwhile.
        expect(freshness_sec).to.equal(Math.max(0, Math.floor((now - Date.parse(generated_at)) / 1000)))
      }
    }
  })
})
