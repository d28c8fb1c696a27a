/** The base is a small refresh of made-up prices with every kind of name. */
import { createHash } from 'node:crypto'
import { expect } from 'chai'
import { loadCatalog } from '#infra/config/catalog.ts'
import type { SimulatedOptions } from '#infra/config/market.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '#schemas/values/instant.ts'
import { nameKey } from '#schemas/values/item-name.ts'
import { toMinor, USD_RATE } from '#schemas/values/money.ts'
import { simulatedBase } from '#services/ingest/connectors/simulated/base.ts'
import { openSimulated } from '#services/ingest/connectors/simulated/client.ts'
import { entryFault, priceMaxAt } from '#services/ingest/entry.ts'
import { rateTable } from '#services/ingest/fx/rate-table.ts'
import { judgeSale } from '#services/ingest/sale.ts'
import type { RawSale, SourceSettings } from '#services/ingest/source.ts'

const NOW = Date.UTC(2026, 2, 5, 12, 0, 7, 123)
const rates = rateTable(0, 'test', new Map([['CNY', '6.70778353']]))
const catalog = loadCatalog()
const names = [...new Set(catalog.map(item => item.market_hash_name))].filter((_, i) => i % 4 === 0)

function baseOf(options: { seed?: number; items?: number; order?: readonly string[] } = {}) {
  const entries = (options.order ?? names).map(name => ({
    market_hash_name: name,
    price: 3 + (createHash('md5').update(name).digest().readUInt16LE(0) % 20_000),
    quantity: 1,
  }))
  const refresh = { kind: 'refresh' as const, observedAt: 0, currency: 'USD', entries }
  return simulatedBase(refresh, rates, { seed: options.seed ?? 42, items: options.items })
}

const feedOf = (over: Partial<SourceSettings> = {}): SourceSettings => ({
  provider: 'provider_04',
  side: 'ask',
  intervalMs: MINUTE_MS,
  currency: 'USD',
  ...over,
})

interface Quote {
  market_hash_name: string
  phase: string | null
  price: number
  quantity: number
}

const base = baseOf()
function quotes(at: number, feed = feedOf(), options: SimulatedOptions = {}, seed = 42, from = base): Quote[] {
  const refresh = openSimulated(feed, options, from, seed).refreshAt?.(at, at - feed.intervalMs, rates)
  return [...(refresh?.entries ?? [])] as Quote[]
}
const byKey = (list: Quote[]) => new Map(list.map(quote => [nameKey(quote.market_hash_name, quote.phase), quote]))

describe('ingest: simulated asks and bids', () => {
  it('are the same for the same seed and time, whatever was asked before and in which order names come', () => {
    const feed = openSimulated(feedOf(), {}, base, 42)
    const at = (time: number) => [...(feed.refreshAt?.(time, 0, rates).entries ?? [])]
    const first = at(NOW)
    at(NOW + DAY_MS)
    at(NOW - DAY_MS)
    expect(at(NOW)).to.deep.equal(first)
    expect(quotes(NOW, feedOf(), {}, 42, baseOf({ order: names.toReversed() }))).to.deep.equal(first)
  })

  it('have this digest: changing it changes every market that runs', () => {
    const few = baseOf({ order: Array.from({ length: 50 }, (_, i) => `★ Knife ${i} | Doppler (Factory New)`) })
    const digest = createHash('sha256').update(JSON.stringify(quotes(NOW, feedOf(), { phases: true }, 42, few)))
    expect(digest.digest('hex').slice(0, 16)).to.equal('431391e495ed1506')
  })

  it('differ by seed, provider and side', () => {
    const own = JSON.stringify(quotes(NOW))
    expect(JSON.stringify(quotes(NOW, feedOf(), {}, 43))).not.to.equal(own)
    expect(JSON.stringify(quotes(NOW, feedOf({ provider: 'provider_05' })))).not.to.equal(own)
    expect(JSON.stringify(quotes(NOW, feedOf({ side: 'bid' })))).not.to.equal(own)
  })

  it('are usable observations of catalog items, phased finishes by phase or as a whole', () => {
    const known = new Set(catalog.map(item => nameKey(item.market_hash_name, item.phase)))
    for (const phases of [true, false]) {
      const list = quotes(NOW, feedOf(), { phases })
      expect(list.some(quote => quote.phase !== null)).to.equal(phases)
      expect(byKey(list).size).to.equal(list.length)
      for (const quote of list) {
        expect(entryFault(quote, priceMaxAt(USD_RATE)), JSON.stringify(quote)).to.equal(undefined)
        expect(known.has(nameKey(quote.market_hash_name, quote.phase)), quote.market_hash_name).to.equal(true)
      }
    }
  })

  it('cover the share that is asked for', () => {
    for (const coverage of [0, 0.3, 1]) {
      const share = quotes(NOW, feedOf(), { coverage, unlisted: 0, phases: false }).length / names.length
      expect(share).to.be.closeTo(coverage, 0.02)
    }
  })

  it('change by the churn from one interval to the next, and some are withdrawn and listed again', () => {
    for (const [churn, unlisted] of [
      [0, 0],
      [0.1, 0],
      [0.2, 0.1],
    ] as const) {
      const options = { churn, coverage: 1, unlisted, stock: 500, factor: 40 }
      const before = byKey(quotes(NOW, feedOf(), options))
      const after = byKey(quotes(NOW + MINUTE_MS, feedOf(), options))
      const both = [...after].filter(([key]) => before.has(key))
      const changed = both.filter(([key, { price, quantity }]) => {
        const then = before.get(key)
        return then?.price !== price || then.quantity !== quantity
      })
      expect(changed.length / both.length).to.be.closeTo(churn, 0.1 * churn + 0.003)
      for (const list of [before, after])
        expect(1 - both.length / list.size).to.be.closeTo(churn * unlisted, churn * unlisted * 0.5)
    }
  })

  it('are the base times the factor, in the provider’s currency', () => {
    const micro = new Map(
      base.names.map((name, i) => [nameKey(name, base.phases[i] ?? null), base.microUsd[i] as number]),
    )
    const yuan = rates.rateOf('CNY') ?? USD_RATE
    for (const quote of quotes(NOW, feedOf({ currency: 'CNY' }), { factor: 1.5 })) {
      const expected = toMinor((micro.get(nameKey(quote.market_hash_name, quote.phase)) ?? 0) * 1.5, yuan)
      expect(quote.price).to.be.within(Math.floor(expected * 0.87) - 1, Math.ceil(expected * 1.13) + 1)
    }
  })

  it('bid below the ask of the same provider by about the spread', () => {
    const options = { factor: 1.1, spread: 0.2 }
    const asks = byKey(quotes(NOW, feedOf(), options))
    const ratios = quotes(NOW, feedOf({ side: 'bid' }), options).flatMap(bid => {
      const ask = asks.get(nameKey(bid.market_hash_name, bid.phase))
      return ask ? [bid.price / ask.price] : []
    })
    const mean = ratios.reduce((sum, ratio) => sum + ratio, 0) / ratios.length
    expect(mean).to.be.closeTo(0.8, 0.02)
  })

  it('of fewer items are a part of those of more', () => {
    const few = quotes(NOW, feedOf(), {}, 42, baseOf({ items: 500 }))
    const all = byKey(quotes(NOW))
    expect(few.length).to.be.within(350, 700)
    for (const quote of few) expect(all.get(nameKey(quote.market_hash_name, quote.phase))).to.deep.equal(quote)
  })

  it('without a rate quote nothing, in a currency that publishing refuses', () => {
    expect(quotes(NOW, feedOf({ currency: 'QQQ' }))).to.deep.equal([])
  })
})

describe('ingest: simulated sales', () => {
  const feed = feedOf({ side: 'sale', intervalMs: HOUR_MS })
  const connector = openSimulated(
    feed,
    { per_day: 2_400, details: ['float', 'paint_seed', 'stickers', 'charms'] },
    base,
    42,
  )
  const sales = (after: number, until: number) =>
    [...(connector.refreshAt?.(until, after, rates).entries ?? [])] as RawSale[]

  it('of touching windows are those of the whole, each once', () => {
    const soldAt = sales(NOW - 3_000_000, NOW)[7]?.sold_at as number
    const cuts = [NOW - 7_200_000, NOW - 5_000_123, NOW - 5_000_122, NOW - HOUR_MS, soldAt, NOW]
    const parts = cuts.slice(1).flatMap((until, i) => sales(cuts[i] as number, until))
    expect(parts).to.deep.equal(sales(cuts[0] as number, NOW))
    expect(new Set(parts.map(sale => sale.sale_id)).size).to.equal(parts.length)
    expect(parts.length).to.be.within(190, 202)
  })

  it('are usable, inside their window, with the details that the provider gives', () => {
    const context = { provider: 'p', currency: 'USD', usdRate: '1', observedAt: NOW, priceMax: priceMaxAt(USD_RATE) }
    const window = sales(NOW - DAY_MS, NOW)
    for (const sale of window) {
      expect(judgeSale(sale, context, new Map())).to.have.property('sale')
      expect(sale.sold_at).to.be.within(NOW - DAY_MS, NOW)
      expect(sale.inspect_in_game).to.equal(null)
    }
    const given = (member: keyof RawSale) => window.filter(sale => sale[member] !== null).length
    expect(given('float')).to.equal(given('paint_seed')).and.be.greaterThan(300)
    expect(window.filter(sale => (sale.stickers as unknown[] | null)?.length).length).to.be.greaterThan(50)
    expect(window.filter(sale => (sale.charms as unknown[] | null)?.length).length).to.be.greaterThan(5)
  })
})
