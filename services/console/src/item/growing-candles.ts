/**
 * Candles that go on with the best ask between two answers of the API.
 *
 * The API's rule for a candle's high looks at every provider (DECISIONS.md, "Candle prices"), so the last candle here is provisional:
 * the next answer replaces it.
 */
export interface Bar {
  /** Unix seconds of its start. */
  t: number
  o: number
  h: number
  l: number
  c: number
  v: number
}

export const INTERVAL_SECONDS = { '5m': 300, '1h': 3_600, '1d': 86_400 } as const

export type Interval = keyof typeof INTERVAL_SECONDS

/** The bars with a best ask that holds at `seconds`; what is older than the last bar changes nothing. */
export function withBestAsk(bars: readonly Bar[], interval: Interval, seconds: number, price: number): readonly Bar[] {
  const start = seconds - (seconds % INTERVAL_SECONDS[interval])
  const last = bars.at(-1)
  if (last === undefined || start < last.t) return bars
  if (start > last.t) {
    const { c } = last
    return [...bars, { t: start, o: c, h: Math.max(c, price), l: Math.min(c, price), c: price, v: 0 }]
  }
  if (last.c === price) return bars
  return [...bars.slice(0, -1), { ...last, h: Math.max(last.h, price), l: Math.min(last.l, price), c: price }]
}

/** The index from which bars are to be drawn again: the last one of before, or 0 where others have changed. */
export function changedFrom(before: readonly Bar[], bars: readonly Bar[]): number {
  const last = before.length - 1
  return last > 0 && before.every((bar, at) => at === last || bar === bars[at]) ? last : 0
}
