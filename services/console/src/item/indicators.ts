/** Lines over candles, by their closing prices. */
import { BollingerBands, EMA, RSI, SMA } from 'trading-signals'
import type { Bar } from './growing-candles.ts'
import type { IndicatorName } from './item-search.ts'

export interface Point {
  t: number
  value: number
}

/** One line or, of bands, two; none of its points is before there are enough candles. */
export function linesOf(name: IndicatorName, bars: readonly Bar[]): Point[][] {
  if (name === 'Bollinger 20') {
    const bands = new BollingerBands(20, 2)
    const [upper, lower]: [Point[], Point[]] = [[], []]
    for (const { t, c } of bars) {
      bands.add(c)
      const band = bands.isStable ? bands.getResult() : null
      if (!band) continue
      upper.push({ t, value: band.upper })
      lower.push({ t, value: band.lower })
    }
    return [upper, lower]
  }
  const indicator = name === 'SMA 20' ? new SMA(20) : name === 'EMA 50' ? new EMA(50) : new RSI(14)
  return [
    bars.flatMap(({ t, c }) => {
      indicator.add(c)
      const value = indicator.isStable ? indicator.getResult() : null
      return value === null ? [] : [{ t, value }]
    }),
  ]
}
