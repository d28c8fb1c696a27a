import { expect } from 'chai'
import fc from 'fast-check'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { HOUR_MS, MINUTE_MS } from '#schemas/values/instant.ts'
import { type ArbitrageTerms, computeArbitrage, excludedProviders } from '#streams/market-summary/arbitrage.ts'
import {
  ARBITRAGE_AGE_LIMIT_MS,
  arbitrageAmounts,
  arbitrageFees,
  freshUntil,
} from '#streams/market-summary/arbitrage-amounts.ts'
import { MarketQuotes } from '#streams/market-summary/market-quotes.ts'
import { arbitrageColumns, columnBytes } from '#streams/market-summary/table.ts'
import { marked } from '#test/harness/published-records.ts'

const NOW = Date.UTC(2026, 2, 3, 21, 34)
const ASKS = ['a', 'b', 'c']
const BIDS = ['b', 'd']
const FEES = new Map([
  ['a', { buy: 300, sell: 500 }],
  ['b', { buy: 0, sell: 250 }],
  ['c', { buy: 0, sell: 0 }],
  ['d', { buy: 0, sell: 1_500 }],
])
const terms: ArbitrageTerms = { asOf: NOW, excluded: new Map(), fees: FEES }

const quote = fc.record({
  item: fc.integer({ min: 1, max: 30 }),
  side: fc.constantFrom('ask' as const, 'bid' as const),
  provider: fc.constantFrom('a', 'b', 'c', 'd'),
  micro: fc.integer({ min: 1, max: 3_000 }).map(cents => cents * 10_000),
  quantity: fc.integer({ min: 1, max: 9 }),
  ageMs: fc.integer({ min: 0, max: 90 * MINUTE_MS }),
})

describe('arbitrage', () => {
  it('finds what two loops find, in the order of a comparing sort', () =>
    fc.assert(
      fc.property(fc.array(quote, { maxLength: 120 }), quotes => {
        const board = new MarketQuotes({ ask: ASKS, bid: BIDS })
        const standing = new Map<string, (typeof quotes)[number]>()
        for (const one of quotes) {
          const keys = one.side === 'ask' ? ASKS : BIDS
          board.set(one.side, one.provider, one.item, {
            microUsd: one.micro,
            quantity: one.quantity,
            seenAt: NOW - one.ageMs,
          })
          if (keys.includes(one.provider)) standing.set(`${one.side}|${one.provider}|${one.item}`, one)
        }
        const fresh = [...standing.values()].filter(({ ageMs }) => ageMs <= HOUR_MS)
        const pairs = fresh.flatMap(buy =>
          fresh.flatMap(sell => {
            if (buy.side !== 'ask' || sell.side !== 'bid' || buy.item !== sell.item || buy.provider === sell.provider)
              return []
            const [paid, got] = [FEES.get(buy.provider)?.buy ?? 0, FEES.get(sell.provider)?.sell ?? 0]
            const profit = sell.micro * (10_000 - got) - buy.micro * (10_000 + paid)
            return profit > 0 ? [{ profit, buy, sell }] : []
          }),
        )
        pairs.sort(
          (x, y) =>
            y.profit - x.profit ||
            x.buy.item - y.buy.item ||
            x.buy.provider.localeCompare(y.buy.provider) ||
            x.sell.provider.localeCompare(y.sell.provider),
        )
        const { columns, providers } = computeArbitrage(board, terms)
        const found = Array.from({ length: columns.rows }, (_, row) => [
          columns.itemId[row],
          providers[columns.buyProvider[row] as number],
          providers[columns.sellProvider[row] as number],
          columns.buyMicroUsd[row],
          columns.sellMicroUsd[row],
          columns.quantity[row],
          columns.buyAgeMs[row],
          columns.sellAgeMs[row],
        ])
        expect(found).to.deep.equal(
          pairs.map(({ buy, sell }) => [
            ...[buy.item, buy.provider, sell.provider, buy.micro, sell.micro],
            ...[Math.min(buy.quantity, sell.quantity), buy.ageMs, sell.ageMs],
          ]),
        )
      }),
    ))

  const boardOf = (pairs: number): MarketQuotes => {
    const board = new MarketQuotes({ ask: ['a'], bid: ['b'] })
    for (let item = 1; item <= pairs; item++) {
      board.set('ask', 'a', item, { microUsd: 10_000, quantity: 1, seenAt: NOW })
      board.set('bid', 'b', item, { microUsd: 20_000 + item * 100, quantity: 1, seenAt: NOW })
    }
    return board
  }

  it('beyond its bound keeps the best', () => {
    const { columns } = computeArbitrage(boardOf(10_000), terms, 10)
    expect([...columns.itemId]).to.deep.equal(Array.from({ length: 10 }, (_, i) => 10_000 - i))
  })

  it('leaves out quotes that are too old, and none that a refresh has confirmed', () => {
    const board = boardOf(3)
    const old = computeArbitrage(board, { ...terms, asOf: NOW + ARBITRAGE_AGE_LIMIT_MS + 1 })
    expect([old.columns.rows, old.excluded.ask.a?.stale, old.excluded.bid.b?.stale]).to.deep.equal([0, 3, 3])
    board.mark({ side: 'ask', provider: 'a', last_updated: NOW + 60_000 } as never, board.partition(0))
    board.mark({ side: 'bid', provider: 'b', last_updated: NOW + 60_000 } as never, board.partition(0))
    const again = computeArbitrage(board, { ...terms, asOf: NOW + ARBITRAGE_AGE_LIMIT_MS + 1 })
    expect(again.columns.rows, 'refreshed, though nothing changed').to.be.above(0)
  })

  it('begins with a refresh whose marker has come to every partition', () => {
    const board = new MarketQuotes({ ask: ASKS, bid: BIDS })
    const mark = (side: 'ask' | 'bid', provider: string, partitions: number) => {
      for (let partition = 0; partition < partitions; partition++) board.mark(marked({ side, provider }), partition)
      return board.refreshedSides()
    }
    expect(mark('ask', 'unknown', ITEM_PARTITIONS)).to.deep.equal([])
    expect(mark('ask', 'b', ITEM_PARTITIONS - 1)).to.deep.equal([])
    expect(mark('ask', 'b', ITEM_PARTITIONS)).to.deep.equal(['ask b'])
    expect(mark('bid', 'b', ITEM_PARTITIONS)).to.deep.equal(['ask b', 'bid b'])
    expect(mark('bid', 'd', ITEM_PARTITIONS)).to.deep.equal(['ask b', 'bid b', 'bid d'])
    expect(board.refreshedSides(new Set(['b']))).to.deep.equal(['bid d'])
  })

  it('columns survive as bytes, and refuse bytes that are cut off', () => {
    const { columns } = computeArbitrage(boardOf(50), terms)
    const copy = arbitrageColumns(columnBytes(columns).slice().buffer)
    expect(copy).to.deep.equal(columns)
    expect(() => arbitrageColumns(columnBytes(columns).slice(1).buffer)).to.throw('cut off')
  })

  it('rows grow too old between the snapshot and the answer', () => {
    const { columns } = computeArbitrage(boardOf(1), { ...terms, asOf: NOW + 1_000 })
    const limit = NOW + ARBITRAGE_AGE_LIMIT_MS
    expect(freshUntil(columns, 0, NOW + 1_000)).to.equal(limit)
  })

  it('amounts are exact and rounded half up', () => {
    const fees = arbitrageFees({ sell_fee: 0.05, insta_sell_fee: 0.1, trading_spread_fee: null })
    expect(fees).to.deep.equal({ buy: 0, sell: 1_000 })
    expect(arbitrageFees({ sell_fee: 0.025, insta_sell_fee: null, trading_spread_fee: 0.07 })).to.deep.equal({
      buy: 700,
      sell: 250,
    })
    // 4,005,000 micro-dollars of fees: a tie.
    expect(arbitrageAmounts(40_050_000, 80_000_000, { buy: 1_000, sell: 0 }).estimatedFeesCents).to.equal(401)
  })

  it('a provider without health is down, one that is held back is quarantined', () => {
    const health = (more: object) => ({
      last_completed_at: NOW - 60_000,
      consecutive_failures: 0,
      quarantined_reason: null,
      ...more,
    })
    const all = new Map([
      ['up', health({})],
      ['held', health({ quarantined_reason: 'glitch' })],
      ['late', health({ last_completed_at: NOW - 46 * MINUTE_MS })],
      ['failing', health({ consecutive_failures: 3 })],
    ])
    const providers = ['up', 'held', 'late', 'failing', 'unknown'].map(key => ({
      key,
      refresh_interval_ms: 15 * MINUTE_MS,
    }))
    expect([...excludedProviders(providers, all as never, NOW)]).to.deep.equal([
      ['held', 'quarantined'],
      ['late', 'down'],
      ['failing', 'down'],
      ['unknown', 'down'],
    ])
  })
})
