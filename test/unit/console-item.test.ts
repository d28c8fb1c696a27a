import { expect } from 'chai'
import { type Bar, changedFrom, withBestAsk } from '#services/console/src/item/growing-candles.ts'
import { linesOf } from '#services/console/src/item/indicators.ts'
import { INDICATORS } from '#services/console/src/item/item-search.ts'

const HOUR_S = 3_600
const FIRST: Bar = { t: 10 * HOUR_S, o: 100, h: 130, l: 90, c: 110, v: 4 }

describe('a growing candle', () => {
  it('closes at the best ask and widens its low and high, and leaves those before it', () => {
    const before = [{ ...FIRST, t: 9 * HOUR_S }, FIRST]
    const lower = withBestAsk(before, '1h', 10 * HOUR_S + 60, 80)
    expect(lower).to.deep.equal([before[0], { ...FIRST, l: 80, c: 80 }])
    expect(withBestAsk(lower, '1h', 10 * HOUR_S + 90, 140).at(-1)).to.deep.equal({ ...FIRST, h: 140, l: 80, c: 140 })
  })

  it('is followed by one that opens where it closed, once its interval is over', () => {
    const next = { t: 11 * HOUR_S, o: 110, h: 110, l: 105, c: 105, v: 0 }
    expect(withBestAsk([FIRST], '1h', 11 * HOUR_S + 1, 105)).to.deep.equal([FIRST, next])
  })

  it('stays as it is by an ask of before it, by the same one again, and where there is none', () => {
    const bars = [FIRST]
    expect(withBestAsk(bars, '1h', 10 * HOUR_S - 1, 1)).to.equal(bars)
    expect(withBestAsk(bars, '1h', 10 * HOUR_S, 110)).to.equal(bars)
    expect(withBestAsk([], '1d', 0, 1)).to.deep.equal([])
  })

  it('is drawn again alone, and all candles where another one has changed', () => {
    const bars = [8, 9, 10].map(hour => ({ ...FIRST, t: hour * HOUR_S }))
    expect(changedFrom(bars, withBestAsk(bars, '1h', 10 * HOUR_S, 80))).to.equal(2)
    expect(changedFrom(bars, withBestAsk(bars, '1h', 11 * HOUR_S, 80))).to.equal(2)
    expect(changedFrom(bars, [{ ...FIRST }, ...bars.slice(1)])).to.equal(0)
    expect(changedFrom(bars, bars.slice(1))).to.equal(0)
    expect(changedFrom([], bars)).to.equal(0)
  })
})

describe('lines over candles', () => {
  const bars = Array.from({ length: 60 }, (_, at): Bar => {
    const price = 1_000 + ((at * 37) % 100)
    return { t: at * HOUR_S, o: price, h: price, l: price, c: price, v: 1 }
  })

  it('have no point before there are enough candles, and then one for each', () => {
    const lengths = INDICATORS.map(name => linesOf(name, bars).map(line => line.length))
    expect(lengths).to.deep.equal([[41], [11], [41, 41], [46]])
    for (const name of INDICATORS) expect(linesOf(name, bars.slice(0, 5)).flat()).to.deep.equal([])
  })

  it('average the closing prices, between bands that lie around', () => {
    const mean = bars.slice(-20).reduce((sum, { c }) => sum + c, 0) / 20
    const [average] = linesOf('SMA 20', bars)
    const [upper, lower] = linesOf('Bollinger 20', bars)
    expect(average?.at(-1)).to.deep.equal({ t: 59 * HOUR_S, value: mean })
    expect(((upper?.at(-1)?.value ?? 0) + (lower?.at(-1)?.value ?? 0)) / 2).to.be.closeTo(mean, 1e-9)
  })
})
