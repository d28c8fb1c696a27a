import { INTERVAL_SECONDS, type Interval } from './growing-candles.ts'

/** Apart from what computes them, which loads with the page of an item. */
export const INDICATORS = ['SMA 20', 'EMA 50', 'Bollinger 20', 'RSI 14'] as const

export type IndicatorName = (typeof INDICATORS)[number]

export interface ItemSearch {
  interval?: Interval | undefined
  /** Names of lines, separated by commas. */
  lines?: string | undefined
  sales?: 'float' | undefined
}

export const readItemSearch = ({ interval, lines, sales }: Record<string, unknown>): ItemSearch => ({
  interval:
    typeof interval === 'string' && Object.hasOwn(INTERVAL_SECONDS, interval) ? (interval as Interval) : undefined,
  lines: typeof lines === 'string' ? namesOf(lines).join() : undefined,
  sales: sales === 'float' ? 'float' : undefined,
})

export const namesOf = (lines: string | undefined): IndicatorName[] =>
  INDICATORS.filter(name => (lines ?? '').split(',').includes(name))
