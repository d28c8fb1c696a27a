/**
 * The benchmarks' own arithmetic: medians, percentiles, bars, and what is read from a process's metrics.
 */
import { expect } from 'chai'
import fc from 'fast-check'
import type { Bar } from '#test/bench/bars.ts'
import type { Entry } from '#test/bench/bench.ts'
import { figureEntry, ratioEntry } from '#test/bench/entry.ts'
import { barsWithRoom, judged, problemsOf } from '#test/bench/judge.ts'
import { move } from '#test/bench/market-load.ts'
import { showResults } from '#test/bench/report.ts'
import { requireOffered, requireSome } from '#test/bench/requirements.ts'
import { sumOf } from '#test/bench/role-process.ts'
import { median, percentile, worst } from '#test/bench/statistics.ts'

const FAST = { name: 'rate', unit: '1/s', better: 'higher' } as const
const SLOW = { name: 'latency', unit: 'ms', better: 'lower' } as const
const CONTRACT = ['name', 'value', 'unit', 'against', 'ratio', 'bar', 'holds']
const turns = (...ratios: number[]) => ratios.map(ratio => ({ value: 100 * ratio, against: 100 }))
const holds = (entry: Entry, bar: Bar) => judged([entry], { [entry.name]: bar })[0]?.holds

describe('bench entries', () => {
  it('takes the median of the ratios of the turns, not the ratio of the medians', () => {
    const drifting = [
      { value: 10, against: 20 },
      { value: 100, against: 200 },
      { value: 1000, against: 1000 },
    ]
    expect(ratioEntry(FAST, drifting)).to.deep.include({ value: 100, against: 200, ratio: 0.5 })
  })

  it('keeps every turn and their spread, of ratios where there are some', () => {
    expect(ratioEntry(FAST, turns(2, 1, 4))).to.deep.include({ turns: turns(2, 1, 4), spread: { min: 1, max: 4 } })
    expect(figureEntry(SLOW, [3, 9, 4])).to.deep.include({ value: 4, spread: { min: 3, max: 9 } })
    expect(figureEntry(SLOW, [3, 9, 4]).turns.map(({ value }) => value)).to.deep.equal([3, 9, 4])
    expect(figureEntry(SLOW, 3)).to.deep.include({ value: 3, turns: [{ value: 3, against: null }], spread: null })
  })

  it('takes the worst turn where a limit is one of every turn', () => {
    expect(figureEntry(SLOW, [3, 9, 4], worst).value).to.equal(9)
  })

  it('has the members that other tools read', () => {
    expect(figureEntry(SLOW, 1)).to.include.all.keys(CONTRACT)
    expect(ratioEntry(FAST, turns(1))).to.include.all.keys(CONTRACT)
  })
})

describe('bench bars', () => {
  it('hold a ratio that is higher or lower than they are, by what was not rounded', () => {
    expect(holds(ratioEntry(FAST, turns(0.1, 0.6, 9)), { atLeast: 0.6 })).to.equal(true)
    expect(holds(ratioEntry(FAST, turns(0.1, 0.5999999, 9)), { atLeast: 0.6 })).to.equal(false)
    expect(holds(ratioEntry(SLOW, turns(0.1, 0.6, 9)), { atMost: 0.6 })).to.equal(true)
    expect(holds(ratioEntry(SLOW, turns(0.1, 0.6000001, 9)), { atMost: 0.6 })).to.equal(false)
  })

  it('hold a figure that has no ratio by its value, in both directions', () => {
    expect(holds(figureEntry(SLOW, 30), { atMost: 30 })).to.equal(true)
    expect(holds(figureEntry(SLOW, 30.001), { atMost: 30 })).to.equal(false)
    expect(holds(figureEntry(FAST, 30), { atLeast: 30 })).to.equal(true)
    expect(holds(figureEntry(FAST, 29.999), { atLeast: 30 })).to.equal(false)
  })

  it('leave a line without a bar unjudged', () => {
    expect(judged([figureEntry(SLOW, 1e9)], {})[0]).to.deep.include({ bar: null, holds: null })
  })

  it('never hold without a measurement, nor does a line without a bar', () => {
    expect(holds(ratioEntry(FAST, []), { atLeast: 0.6 })).to.equal(false)
    expect(holds(ratioEntry(FAST, [{ value: 1, against: 0 }]), { atLeast: 0.6 })).to.equal(false)
    expect(holds(figureEntry(SLOW, Number.NaN), { atMost: 1 })).to.equal(false)
    expect(judged([figureEntry(SLOW, Number.NaN)], {})[0]?.holds).to.equal(false)
  })

  it('are an error when no benchmark of a whole run measures their line, when they point the other way, and when two lines share a name', () => {
    const rate = figureEntry(FAST, 1)
    expect(problemsOf([rate], { rate: { atLeast: 1 }, gone: { atMost: 1 } }, false)).to.deep.equal([])
    expect(problemsOf([rate], { rate: { atLeast: 1 }, gone: { atMost: 1 } }, true)).to.have.length(1)
    expect(problemsOf([rate], { rate: { atMost: 1 } }, true)).to.have.length(1)
    expect(problemsOf([rate, rate], {}, true)).to.have.length(1)
  })

  it('are set from the worst of the runs with 15 % of room, without touching those that a specification names', () => {
    const runs = [
      [ratioEntry(FAST, turns(0.8)), figureEntry(SLOW, 10)],
      [ratioEntry(FAST, turns(1)), figureEntry(SLOW, 20)],
    ]
    expect(barsWithRoom(runs, {})).to.deep.equal({ rate: { atLeast: 0.68 }, latency: { atMost: 23 } })
    const fixed = { rate: { atLeast: 0.5, fixed: true }, gone: { atMost: 1 } } as const
    expect(barsWithRoom(runs, fixed)).to.deep.equal({ ...fixed, latency: { atMost: 23 } })
  })

  it('are not set for a line without a direction, nor for a figure of zero or less', () => {
    expect(barsWithRoom([[figureEntry({ ...SLOW, better: null }, 5)]], {})).to.deep.equal({})
    expect(barsWithRoom([[figureEntry(SLOW, 0)]], {})).to.deep.equal({})
  })
})

describe('bench report', () => {
  const machine = { cores: 2, cpu: 'some', memory_gib: 24, node: 'v24' }
  const measuredOn = { machine, commit: { id: 'abc', is_dirty: true } }
  const shown = (entries: readonly Entry[], isTTY: boolean): string => {
    let text = ''
    const write = (part: string) => {
      text += part
    }
    showResults({ isTTY, write }, entries, measuredOn)
    return text
  }

  it('gives every line as JSON with the machine, the commit and all turns, rounded', () => {
    const [line] = JSON.parse(shown([ratioEntry(FAST, turns(1 / 3, 2))], false))
    expect(line).to.include.all.keys(CONTRACT)
    expect(line).to.deep.include({ ratio: 1.167, spread: { min: 0.3333, max: 2 }, better: 'higher', ...measuredOn })
    expect(line.turns[0]).to.deep.equal({ value: 33.3333, against: 100 })
  })

  it('shows a bar with its direction, the spread, and whether it holds', () => {
    const bars = { rate: { atLeast: 0.6 }, latency: { atMost: 5 } } as const
    const table = shown(judged([ratioEntry(FAST, turns(0.5, 0.9)), figureEntry(SLOW, [6, 7])], bars), true)
    expect(table).to.match(/rate.* 0\.5 to 0\.9 .*>= 0\.6 .*holds/)
    expect(table).to.match(/latency.* 6 to 7 .*<= 5 .*MISSED/)
  })
})

describe('bench requirements', () => {
  it('refuse a load of less than 98 % of what is claimed, and one that was not measured', () => {
    expect(() => requireOffered('changes', 4_900, 5_000)).to.not.throw()
    expect(() => requireOffered('changes', 4_899, 5_000)).to.throw('changes: 4899')
    expect(() => requireOffered('changes', Number.NaN, 5_000)).to.throw()
  })

  it('refuse a claim about no rows at all', () => {
    expect(() => requireSome('rows', 1)).to.not.throw()
    expect(() => requireSome('rows', 0)).to.throw('rows')
    expect(() => requireSome('rows', Number.NaN)).to.throw()
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

  it('distinguishes a metric that is missing from one that is zero', () => {
    expect(sumOf(text, 'absent_total')).to.be.NaN
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
