import { INTERVAL_SECONDS, type Interval } from './growing-candles.ts'
import { INDICATORS, type IndicatorName } from './indicators.ts'

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
