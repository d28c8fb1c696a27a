/**
 * Technical indicators of a series of candles, as of its last one.
 *
 * Pure. Smoothing is that of the library trading-signals; what its indicators begin with is not: its EMA starts at the
 * first value and its first true range has no close before it, so both are fed as DECISIONS.md, "Indicators", and
 * TA-Lib begin. Formulas: Wilder (RSI, ATR); Appel (MACD, both averages begin in the candle in which the slow one
 * can); Bollinger; Keltner by ATR. Invariant: a series that is too short gives null, never a guess.
 */
import { BollingerBands, EMA, SMA, TR, WSMA } from 'trading-signals'
import type { IndicatorValues } from '#schemas/api/indicators.ts'

export interface SeriesCandle {
  open: number
  high: number
  low: number
  close: number
  volume: number
}

const RSI_PERIOD = 14
const ATR_PERIOD = 14
const BANDS_PERIOD = 20
const VWAP_PERIOD = 20
const VOLATILITY_PERIOD = 20
const FAST = 12
const SLOW = 26
const SIGNAL = 9
const [OVERBOUGHT, OVERSOLD] = [70, 30]
const [WIDE, NARROW] = [0.2, 0.05]

/** Names of figures and the candles that each needs. */
export const CANDLES_NEEDED = {
  rsi_14: RSI_PERIOD + 1,
  macd: SLOW + SIGNAL - 1,
  sma_20: 20,
  sma_50: 50,
  sma_200: 200,
  ema_12: FAST,
  ema_26: SLOW,
  bollinger: BANDS_PERIOD,
  atr_14: ATR_PERIOD + 1,
  historical_volatility_20: VOLATILITY_PERIOD + 1,
  keltner: BANDS_PERIOD,
  vwap: VWAP_PERIOD,
  obv: 1,
  volume_sma_20: 20,
} as const

/** All figures and signals; `periodsPerYear` is the number of candles in a year. */
export function indicatorsOf(candles: readonly SeriesCandle[], periodsPerYear: number): IndicatorValues {
  const closes = candles.map(({ close }) => close)
  const volumes = candles.map(({ volume }) => volume)
  const momentum = {
    rsi_14: rsiOf(closes),
    ...macdOf(closes),
    sma_20: smaOf(closes, 20),
    sma_50: smaOf(closes, 50),
    sma_200: smaOf(closes, 200),
    ema_12: emaSeries(closes, FAST).at(-1) ?? null,
    ema_26: emaSeries(closes, SLOW).at(-1) ?? null,
    ...bandsOf(closes),
  }
  return {
    momentum,
    volatility: {
      atr_14: atrOf(candles),
      historical_volatility_20: volatilityOf(closes, periodsPerYear),
      ...keltnerOf(closes, atrOf(candles)),
    },
    volume: { vwap: vwapOf(candles), obv: obvOf(candles), volume_sma_20: smaOf(volumes, 20) },
    signals: signalsOf(momentum, closes.at(-1)),
  }
}

/** The value of an indicator after the last of some inputs; null where they are too few. */
function lastOf<Input, Value>(
  indicator: { update(input: Input, replace: boolean): Value | null },
  inputs: readonly Input[],
): Value | null {
  let last: Value | null = null
  for (const input of inputs) last = indicator.update(input, false)
  return last
}

const smaOf = (values: readonly number[], period: number): number | null =>
  lastOf(new SMA(period), values.slice(-period))

/** The average of each value from the n-th on; it begins as the mean of the first n. */
function emaSeries(values: readonly number[], period: number): number[] {
  const first = smaOf(values.slice(0, period), period)
  if (first === null) return []
  const ema = new EMA(period)
  return [first, ...values.slice(period)].map(value => ema.update(value, false))
}

/** Wilder's index. A series that has not moved at all is 0, as in TA-Lib. */
function rsiOf(closes: readonly number[]): number | null {
  const changes = closes.slice(1).map((close, i) => close - (closes[i] as number))
  const gain = lastOf(
    new WSMA(RSI_PERIOD),
    changes.map(change => Math.max(change, 0)),
  )
  const loss = lastOf(
    new WSMA(RSI_PERIOD),
    changes.map(change => Math.max(-change, 0)),
  )
  if (gain === null || loss === null) return null
  return gain + loss === 0 ? 0 : (100 * gain) / (gain + loss)
}

function macdOf(closes: readonly number[]) {
  const slow = emaSeries(closes, SLOW)
  const fast = emaSeries(closes.slice(SLOW - FAST), FAST)
  const lines = slow.map((value, i) => (fast[i] as number) - value)
  const signal = emaSeries(lines, SIGNAL).at(-1)
  if (signal === undefined) return { macd_line: null, macd_signal: null, macd_histogram: null }
  const line = lines.at(-1) as number
  return { macd_line: line, macd_signal: signal, macd_histogram: line - signal }
}

function bandsOf(closes: readonly number[]) {
  const last = lastOf(new BollingerBands(BANDS_PERIOD, 2), closes.slice(-BANDS_PERIOD))
  return { bb_upper: last?.upper ?? null, bb_middle: last?.middle ?? null, bb_lower: last?.lower ?? null }
}

/** Wilder's average of true ranges, the first of which is that of the second candle. */
function atrOf(candles: readonly SeriesCandle[]): number | null {
  const range = new TR()
  const ranges = candles.map(candle => range.update(candle, false))
  return lastOf(new WSMA(ATR_PERIOD), ranges.slice(1))
}

function keltnerOf(closes: readonly number[], range: number | null) {
  const middle = emaSeries(closes, BANDS_PERIOD).at(-1)
  if (middle === undefined || range === null) return { kc_upper: null, kc_middle: null, kc_lower: null }
  return { kc_upper: middle + 2 * range, kc_middle: middle, kc_lower: middle - 2 * range }
}

/** Sample deviation of the last logarithmic returns, of a year, in percent. */
function volatilityOf(closes: readonly number[], periodsPerYear: number): number | null {
  const last = closes.slice(-VOLATILITY_PERIOD - 1)
  if (last.length <= VOLATILITY_PERIOD || last.some(close => close <= 0)) return null
  const returns = last.slice(1).map((close, i) => Math.log(close / (last[i] as number)))
  const mean = returns.reduce((sum, each) => sum + each, 0) / returns.length
  const variance = returns.reduce((sum, each) => sum + (each - mean) ** 2, 0) / (returns.length - 1)
  return Math.sqrt(variance) * Math.sqrt(periodsPerYear) * 100
}

/** Typical prices weighted by volume; nothing traded has no such price. */
function vwapOf(candles: readonly SeriesCandle[]): number | null {
  const last = candles.slice(-VWAP_PERIOD)
  if (last.length < VWAP_PERIOD) return null
  const volume = last.reduce((sum, candle) => sum + candle.volume, 0)
  const value = last.reduce((sum, { high, low, close, volume }) => sum + ((high + low + close) / 3) * volume, 0)
  return volume === 0 ? null : value / volume
}

function obvOf(candles: readonly SeriesCandle[]): number | null {
  if (candles.length === 0) return null
  let sum = 0
  for (let i = 1; i < candles.length; i++) {
    const [before, candle] = [candles[i - 1] as SeriesCandle, candles[i] as SeriesCandle]
    sum += Math.sign(candle.close - before.close) * candle.volume
  }
  return sum
}

const BULLISH = new Set(['bullish', 'oversold'])
const BEARISH = new Set(['bearish', 'overbought'])

function signalsOf(momentum: IndicatorValues['momentum'], close: number | undefined): IndicatorValues['signals'] {
  const { rsi_14: rsi, macd_histogram: histogram, sma_50, sma_200, bb_upper, bb_middle, bb_lower } = momentum
  const hasBands = bb_upper !== null && bb_lower !== null && bb_middle !== null
  const signals = {
    rsi: rsi === null ? null : band(rsi, OVERSOLD, OVERBOUGHT),
    macd: histogram === null ? null : direction(histogram),
    trend: close === undefined || sma_50 === null || sma_200 === null ? null : trendOf(close, sma_50, sma_200),
    bollinger: close === undefined || !hasBands ? null : band(close, bb_lower, bb_upper),
  }
  const directions = Object.values(signals).filter(signal => signal !== null)
  const score = directions.reduce((sum, signal) => sum + (BULLISH.has(signal) ? 1 : BEARISH.has(signal) ? -1 : 0), 0)
  return {
    ...signals,
    volatility: hasBands && bb_middle > 0 ? widthOf((bb_upper - bb_lower) / bb_middle) : null,
    composite_score: directions.length === 0 ? null : Math.round((score / directions.length) * 100) / 100,
  }
}

const band = (value: number, low: number, high: number) =>
  value > high ? ('overbought' as const) : value < low ? ('oversold' as const) : ('neutral' as const)

const direction = (value: number) =>
  value > 0 ? ('bullish' as const) : value < 0 ? ('bearish' as const) : ('neutral' as const)

function trendOf(close: number, middle: number, slow: number): 'bullish' | 'neutral' | 'bearish' {
  if (close > middle && middle > slow) return 'bullish'
  return close < middle && middle < slow ? 'bearish' : 'neutral'
}

const widthOf = (width: number) =>
  width > WIDE ? ('high' as const) : width < NARROW ? ('low' as const) : ('normal' as const)
