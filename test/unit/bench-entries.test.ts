import { expect } from 'chai'
import fc from 'fast-check'
import type { Bar } from '#test/bench/bars.ts'
import { type Entry, entryOf, failureEntry, judged, median, percentile, problemsOf, worst } from '#test/bench/entry.ts'
import { move } from '#test/bench/market-load.ts'

const turns = (...ratios: number[]) => ratios.map(ratio => ({ value: 100 * ratio, against: 100 }))
const ratio = (...ratios: number[]) => entryOf('line', '1/s', turns(...ratios))
const holds = (entry: Entry, bar: Bar) => judged([entry], { [entry.name]: bar })[0]?.holds

describe('bench entries', () => {
  it('take the median of the ratios of the turns, not the ratio of the medians', () => {
    const drifting = [
      { value: 10, against: 20 },
      { value: 100, against: 50 },
      { value: 1000, against: 4000 },
    ]
    expect(entryOf('line', '1/s', drifting)).to.deep.include({ value: 100, against: 50, ratio: 0.5 })
  })

  it('keep every turn', () => {
    expect(ratio(2, 1, 4)).to.deep.include({ turns: turns(2, 1, 4) })
    const figures = entryOf('line', 'ms', [3, 9, 4])
    expect(figures).to.deep.include({ value: 4, ratio: null })
    expect(figures.turns.map(({ value }) => value)).to.deep.equal([3, 9, 4])
    expect(entryOf('line', 'ms', 3)).to.deep.include({ value: 3 })
    expect(entryOf('line', 'ms', [3, 9, 4], worst).value).to.equal(9)
  })
})

describe('bench bars', () => {
  it('hold the ratio, or the value where there is none, in both directions and by what was not rounded', () => {
    for (const [entry, figure] of [
      [ratio(0.1, 0.6, 9), 0.6],
      [entryOf('line', 'ms', 0.6), 0.6],
    ] as const) {
      expect(holds(entry, { atLeast: figure })).to.equal(true)
      expect(holds(entry, { atLeast: figure + 1e-7 })).to.equal(false)
      expect(holds(entry, { atMost: figure })).to.equal(true)
      expect(holds(entry, { atMost: figure - 1e-7 })).to.equal(false)
    }
  })

  it('never hold without a measurement, nor does a line without a bar, nor a benchmark that failed', () => {
    const endless = entryOf('line', '1/s', [{ value: 1, against: 0 }])
    for (const entry of [entryOf('line', 'ms', []), ratio(Number.NaN), endless, entryOf('line', 'ms', Number.NaN)]) {
      for (const bar of [{ atLeast: 0.6 }, { atMost: 0.6 }]) expect(holds(entry, bar)).to.equal(false)
      expect(judged([entry], {})[0]?.holds).to.equal(false)
    }
    const failed = judged([failureEntry('line', new Error('no rows'))], { 'line: failed': { atMost: 9 } })
    expect(failed[0]).to.deep.include({ name: 'line: failed', value: 1, bar: 0, holds: false, failure: 'no rows' })
    expect(judged([entryOf('line', 'ms', 1e9)], {})[0]).to.deep.include({ bar: null, holds: null })
  })

  it('are an error when no benchmark of a whole run measures their line, and when two lines share a name', () => {
    const bars = { line: { atLeast: 1 }, gone: { atMost: 1 } }
    expect(problemsOf([ratio(1)], bars, false)).to.deep.equal([])
    expect(problemsOf([ratio(1)], bars, true)).to.have.length(1)
    expect(problemsOf([ratio(1), ratio(1)], {}, true)).to.have.length(1)
  })
})

describe('bench statistics', () => {
  it('finds the smallest value that a share of all does not exceed, and the middle one', () => {
    const hundred = Array.from({ length: 100 }, (_, at) => 100 - at)
    expect([0.01, 0.5, 0.99, 1].map(share => percentile(hundred, share))).to.deep.equal([1, 50, 99, 100])
    expect([percentile([7], 0.99), percentile([], 0.5)]).to.deep.equal([7, Number.NaN])
    expect([median([3, 1, 2]), median(hundred), median([])]).to.deep.equal([2, 50.5, Number.NaN])
  })
})

describe('bench market', () => {
  // Prices used to run away: of fifty stretches those that moved in even refreshes always went up, the others always down.
  it('moves exactly the asked share of the prices, and none by more than a hundredth, whatever was moved before', () => {
    const shares = fc.array(fc.constantFrom(0.01, 0.02, 0.2, 0.5, 1), { minLength: 1, maxLength: 60 })
    fc.assert(
      fc.property(shares, asked => {
        const firstPrices = Array.from({ length: 100 }, (_, item) => 3 + item)
        const listing = { prices: [...firstPrices], firstPrices, refreshes: 0 }
        expect(move(listing, 1)).to.equal(0)
        for (const share of asked) {
          const before = [...listing.prices]
          expect(move(listing, share)).to.equal(share * 100)
          expect(listing.prices.filter((price, item) => price !== before[item]).length).to.equal(share * 100)
        }
        for (const [item, price] of listing.prices.entries())
          expect(price - (firstPrices[item] ?? 0)).to.be.oneOf([0, 1])
      }),
    )
  })
})
