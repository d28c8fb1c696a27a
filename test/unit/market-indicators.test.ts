/**
 * Indicators against TA-Lib on 200 real price series, and where TA-Lib has none against their formulas, written out a second time.
 */
import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { expect } from 'chai'
import { CANDLES_NEEDED, indicatorsOf, type SeriesCandle } from '#services/api/indicator-math.ts'

/** Made by test/fixtures/indicators/expected.py, which says how candles are made of the closes. */
const FIXTURE = new URL('../fixtures/indicators/expected.json.gz', import.meta.url)
const TOLERANCE = 1e-9
const DAYS = 365

type Point = [day: number, priceMinor: number, listings: number | null]
type Expected = Record<string, number | null>

interface Series {
  name: string
  points: Point[]
  plain: Expected
  filled: Expected
  short?: Record<string, Expected>
}

const { series } = JSON.parse(gunzipSync(readFileSync(FIXTURE)).toString()) as { series: Series[] }

function candlesOf(points: readonly Point[]): SeriesCandle[] {
  return points.map(([, price, listings], i) => {
    const close = price / 100
    const open = i === 0 ? close : (points[i - 1] as Point)[1] / 100
    return { open, high: Math.max(open, close), low: Math.min(open, close), close, volume: listings ?? 0 }
  })
}

function filledOf(points: readonly Point[]): SeriesCandle[] {
  const known = new Map(candlesOf(points).map((candle, i) => [(points[i] as Point)[0], candle]))
  const [first, last] = [points[0] as Point, points.at(-1) as Point]
  const candles: SeriesCandle[] = []
  for (let day = first[0]; day <= last[0]; day++) {
    const close = candles.at(-1)?.close ?? 0
    candles.push(known.get(day) ?? { open: close, high: close, low: close, close, volume: 0 })
  }
  return candles.slice(-DAYS)
}

function same(actual: number | null | undefined, expected: number | null | undefined, what: string): void {
  if (expected === null || expected === undefined || actual === null || actual === undefined) {
    expect(actual ?? null, what).to.equal(expected ?? null)
    return
  }
  const distance = Math.abs(actual - expected)
  // A difference of two averages may be next to nothing; then it is measured by what they are made of.
  const scale = Math.max(Math.abs(expected), 1e-6)
  expect(distance / scale, `${what}: ${actual} is not ${expected}`).to.be.at.most(TOLERANCE)
}

function compare(candles: readonly SeriesCandle[], expected: Expected, name: string): void {
  const { momentum, volatility, volume } = indicatorsOf(candles, 365)
  const { ema_20, ...truth } = expected
  const actual: Expected = { ...momentum, ...volatility, ...volume }
  for (const [figure, value] of Object.entries(truth)) same(actual[figure], value, `${name}: ${figure}`)
  const range = truth.atr_14 ?? null
  const channel = (sign: number) =>
    ema_20 === null || ema_20 === undefined || range === null ? null : ema_20 + sign * 2 * range
  for (const [figure, sign] of [
    ['kc_upper', 1],
    ['kc_middle', 0],
    ['kc_lower', -1],
  ] as const) {
    same(actual[figure], channel(sign), `${name}: ${figure}`)
  }
  same(actual.vwap, modelVwap(candles), `${name}: vwap`)
  same(actual.historical_volatility_20, modelVolatility(candles), `${name}: historical volatility`)
}

function modelVwap(candles: readonly SeriesCandle[]): number | null {
  if (candles.length < 20) return null
  let [value, volume] = [0, 0]
  for (let i = candles.length - 20; i < candles.length; i++) {
    const candle = candles[i] as SeriesCandle
    value += (candle.volume * (candle.high + candle.low + candle.close)) / 3
    volume += candle.volume
  }
  return volume > 0 ? value / volume : null
}

/** By the sums of returns and of their squares, unlike the code. */
function modelVolatility(candles: readonly SeriesCandle[]): number | null {
  if (candles.length < 21) return null
  let [sum, squares] = [0, 0]
  for (let i = candles.length - 20; i < candles.length; i++) {
    const step = Math.log((candles[i] as SeriesCandle).close) - Math.log((candles[i - 1] as SeriesCandle).close)
    sum += step
    squares += step * step
  }
  return 100 * Math.sqrt((Math.max(0, squares - (sum * sum) / 20) / 19) * 365)
}

describe('market indicators', () => {
  it('equal TA-Lib on 200 real series as they are', () => {
    expect(series).to.have.length(200)
    for (const { name, points, plain } of series) compare(candlesOf(points), plain, name)
  })

  it('equal TA-Lib on the last 365 days of them, gaps filled forward', () => {
    for (const { name, points, filled } of series) compare(filledOf(points), filled, name)
    expect(series.filter(({ filled }) => filled.sma_200 !== null)).to.have.length(200)
  })

  it('are null exactly where TA-Lib has nothing yet', () => {
    const short = series.flatMap(({ name, points, short = {} }) =>
      Object.entries(short).map(([n, expected]) => ({
        name: `${n} of ${name}`,
        candles: candlesOf(points.slice(0, Number(n))),
        expected,
      })),
    )
    expect(short).to.have.length(160)
    for (const { name, candles, expected } of short) compare(candles, expected, name)
  })

  it('need as many candles as they say', () => {
    const candles = candlesOf((series[0] as Series).points)
    const figuresOf = (count: number): Record<string, unknown> => {
      const { momentum, volatility, volume } = indicatorsOf(candles.slice(0, count), 365)
      return {
        ...momentum,
        ...volatility,
        ...volume,
        macd: momentum.macd_line,
        bollinger: momentum.bb_upper,
        keltner: volatility.kc_upper,
      }
    }
    for (const [name, needed] of Object.entries(CANDLES_NEEDED)) {
      if (needed > candles.length || name === 'vwap') continue
      expect(figuresOf(needed)[name], `${name} of ${needed}`).to.be.a('number')
      expect(figuresOf(needed - 1)[name], `${name} of ${needed - 1}`).to.equal(null)
    }
  })

  it('of no candle at all are null', () => {
    const { momentum, volatility, volume, signals } = indicatorsOf([], 365)
    for (const value of Object.values({ ...momentum, ...volatility, ...volume, ...signals }))
      expect(value).to.equal(null)
  })

  describe('signals', () => {
    const flat = (close: number, volume = 1): SeriesCandle => ({ open: close, high: close, low: close, close, volume })
    // Ever steeper, so that no average difference is next to nothing.
    const rising = Array.from({ length: 260 }, (_, i) => flat(100 + (i * i) / 50))
    const cases = [
      {
        name: 'a rise that becomes steeper',
        candles: rising,
        signals: {
          rsi: 'overbought',
          macd: 'bullish',
          trend: 'bullish',
          bollinger: 'neutral',
          volatility: 'normal',
          composite_score: 0.25,
        },
      },
      {
        name: 'a fall that levels off',
        candles: rising.toReversed(),
        signals: {
          rsi: 'oversold',
          macd: 'bullish',
          trend: 'bearish',
          bollinger: 'neutral',
          volatility: 'normal',
          composite_score: 0.25,
        },
      },
      {
        name: 'a jump at the end',
        candles: [...Array.from({ length: 30 }, (_, i) => flat(100 + (i % 2))), flat(180)],
        signals: { rsi: 'overbought', macd: null, trend: null, bollinger: 'overbought', composite_score: -1 },
      },
    ]
    for (const { name, candles, signals } of cases)
      it(`of ${name}`, () => expect(indicatorsOf(candles, 365).signals).to.include(signals))
  })
})
