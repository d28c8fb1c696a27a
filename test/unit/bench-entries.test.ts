/**
 * The benchmarks' own arithmetic: medians, percentiles, bars, and what is read from a process's metrics.
 */
import { expect } from 'chai'
import fc from 'fast-check'
import { figureEntry, ratioEntry } from '#test/bench/entry.ts'
import { move } from '#test/bench/market-load.ts'
import { sumOf } from '#test/bench/role-process.ts'
import { median, percentile } from '#test/bench/statistics.ts'

const NAMED = { name: 'thing', unit: '1/s' }

describe('bench entries', () => {
  const turns = (...ratios: number[]) => ratios.map(ratio => ({ value: 100 * ratio, against: 100 }))

  it('holds a ratio at its bar and not below', () => {
    expect(ratioEntry(NAMED, turns(0.1, 0.6, 9), 0.6)).to.deep.include({ ratio: 0.6, bar: 0.6, holds: true })
    expect(ratioEntry(NAMED, turns(0.1, 0.5999999, 9), 0.6)).to.deep.include({ ratio: 0.6, holds: false })
  })

  it('takes the median of the ratios of the turns, not the ratio of the medians', () => {
    const drifting = [
      { value: 10, against: 20 },
      { value: 100, against: 200 },
      { value: 1000, against: 1000 },
    ]
    expect(ratioEntry(NAMED, drifting, 0.6)).to.deep.include({ value: 100, against: 200, ratio: 0.5, holds: false })
  })

  it('holds a figure at its bar and not above', () => {
    expect(figureEntry(NAMED, 30, 30).holds).to.equal(true)
    expect(figureEntry(NAMED, 30.001, 30).holds).to.equal(false)
    expect(figureEntry(NAMED, 1e9).holds).to.equal(true)
  })

  it('never holds without a measurement', () => {
    expect(ratioEntry(NAMED, [], 0.6).holds).to.equal(false)
    expect(ratioEntry(NAMED, [{ value: 1, against: 0 }], 0.6).holds).to.equal(false)
    expect(figureEntry(NAMED, Number.NaN).holds).to.equal(false)
  })

  it('has exactly the members that other tools read', () => {
    expect(figureEntry(NAMED, 1)).to.have.all.keys('name', 'value', 'unit', 'against', 'ratio', 'bar', 'holds')
    expect(ratioEntry(NAMED, turns(1))).to.have.all.keys('name', 'value', 'unit', 'against', 'ratio', 'bar', 'holds')
  })
})

describe('bench statistics', () => {
  it('finds the smallest value that a share of all does not exceed', () => {
    const shares = fc.double({ min: 0.01, max: 1, noNaN: true })
    fc.assert(
      fc.property(fc.array(fc.integer(), { minLength: 1 }), shares, (values, share) => {
        const found = percentile(values, share)
        const notAbove = (limit: number) => values.filter(value => value <= limit).length
        expect(notAbove(found)).to.be.at.least(share * values.length)
        const smaller = values.filter(value => value < found)
        if (smaller.length > 0) expect(notAbove(Math.max(...smaller))).to.be.below(share * values.length)
      }),
    )
  })

  it('has as many values below a median as above', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.integer(), { minLength: 1 }), values => {
        const middle = median(values)
        expect(values.filter(value => value < middle).length).to.equal(values.filter(value => value > middle).length)
      }),
    )
  })
})

describe('bench metrics', () => {
  const text = [
    '# HELP rows_total Rows.',
    'rows_total{table="a",note="x{y} 7"} 3',
    'rows_total{table="b"} 4.5',
    'rows_total_other 100',
    'process_cpu_seconds_total 1e-3',
  ].join('\n')

  it('sums the series of a metric and of no other', () => {
    expect(sumOf(text, 'rows_total')).to.equal(7.5)
    expect(sumOf(text, 'process_cpu_seconds_total')).to.equal(0.001)
  })

  it('tells a metric that is missing from one that is zero', () => {
    expect(sumOf(text, 'absent_total')).to.be.NaN
  })
})

describe('bench market', () => {
  it('moves exactly the asked share of the prices after the first refresh, and lets none run away', () => {
    const listing = { prices: Array.from({ length: 1000 }, (_, item) => 10 + item), refreshes: 0 }
    const first = [...listing.prices]
    expect(move(listing, 0.2)).to.equal(0)
    for (let refresh = 0; refresh < 50; refresh++) {
      const before = [...listing.prices]
      expect(move(listing, 0.2)).to.equal(200)
      expect(listing.prices.filter((price, item) => price !== before[item]).length).to.equal(200)
    }
    for (const [item, price] of listing.prices.entries()) expect(Math.abs(price - (first[item] ?? 0))).to.be.below(6)
  })
})
