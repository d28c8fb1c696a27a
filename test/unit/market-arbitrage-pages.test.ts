import { expect } from 'chai'
import fc from 'fast-check'
import type { ArbitrageQuery } from '#schemas/api/arbitrage.ts'
import { arbitragePage } from '#services/api/queries/arbitrage.ts'
import { ARBITRAGE_AGE_LIMIT_MS } from '#streams/market-summary/arbitrage-amounts.ts'
import type { ArbitrageView } from '#streams/market-summary/reader.ts'
import { arbitrageColumns } from '#streams/market-summary/table.ts'

const PROVIDERS = ['provider_01', 'provider_02', 'provider_03', 'provider_05', 'provider_08', 'provider_13']
const AS_OF = 1_790_000_000_000

const provider = fc.nat(PROVIDERS.length - 1)
const pair = fc.record({
  buy: fc.integer({ min: 1, max: 50 }),
  gain: fc.integer({ min: 1, max: 10 }),
  buyer: provider,
  seller: provider,
  // Half of the legs are near the limit.
  age: fc.oneof(fc.constant(0), fc.integer({ min: ARBITRAGE_AGE_LIMIT_MS - 5, max: ARBITRAGE_AGE_LIMIT_MS + 5 })),
})
type Pair = typeof pair extends fc.Arbitrary<infer T> ? T : never
const keys = fc.option(fc.uniqueArray(fc.constantFrom(...PROVIDERS, 'provider_40'), { minLength: 1 }), {
  nil: undefined,
})
const question = fc.record({
  limit: fc.integer({ min: 1, max: 30 }),
  offset: fc.oneof(fc.constant(0), fc.nat(120)),
  min_spread_pct: fc.constantFrom(0, 0.5, 10, 35),
  providers_buy: keys,
  providers_sell: keys,
})

const snapshot = fc.array(pair, { maxLength: 150, size: 'max' })

function viewOf(pairs: readonly Pair[]): ArbitrageView {
  const columns = arbitrageColumns(pairs.length)
  for (const [row, { buy, gain, buyer, seller, age }] of pairs.entries()) {
    columns.buyMicroUsd[row] = buy
    columns.sellMicroUsd[row] = buy + gain
    columns.buyProvider[row] = buyer
    columns.sellProvider[row] = seller
    columns.buyAgeMs[row] = age
  }
  return { asOf: AS_OF, providers: PROVIDERS, excluded: { ask: {}, bid: {} }, columns }
}

/** By the definition: filter, then cut the page, then leave out what has become too old. */
function expectedPage(pairs: readonly Pair[], asked: ArbitrageQuery, afterMs: number) {
  const has = (wanted: readonly string[] | undefined, number: number) =>
    wanted === undefined || wanted.includes(PROVIDERS[number] as string)
  const all = [...pairs.keys()].filter(row => {
    const { buy, gain, buyer, seller } = pairs[row] as Pair
    const isSpread = (gain / buy) * 100 >= asked.min_spread_pct
    return isSpread && has(asked.providers_buy, buyer) && has(asked.providers_sell, seller)
  })
  const end = asked.offset + asked.limit
  const isYoung = (row: number) => (pairs[row] as Pair).age + afterMs <= ARBITRAGE_AGE_LIMIT_MS
  return { rows: all.slice(asked.offset, end).filter(isYoung), hasNext: all.length > end }
}

describe('pages of arbitrage', () => {
  it('are those of a plain filter over all rows, whatever is asked and in whatever order', () => {
    fc.assert(
      fc.property(snapshot, fc.array(question, { minLength: 1, maxLength: 6 }), (pairs, questions) => {
        const view = viewOf(pairs)
        for (const asked of questions as ArbitrageQuery[]) {
          for (const afterMs of [0, 3, 999, 1_000]) {
            const { until, ...page } = arbitragePage(view, asked, AS_OF + afterMs)
            const shownAt = (ms: number) => [expectedPage(pairs, asked, ms), Math.floor(ms / 1000)]
            expect(page).to.deep.equal(expectedPage(pairs, asked, afterMs))
            expect(shownAt(until - AS_OF)).to.deep.equal(shownAt(afterMs))
            expect(shownAt(until - AS_OF + 1)).to.not.deep.equal(shownAt(afterMs))
          }
        }
      }),
      { numRuns: 400 },
    )
  })
})
