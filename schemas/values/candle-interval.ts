import type { Instant } from './instant.ts'
import { DAY_MS, HOUR_MS } from './instant.ts'

/** A bucket width, and for how many days its buckets are kept. */
export interface CandleInterval {
  readonly ms: number
  readonly retentionDays: number
}

export const CANDLE_INTERVALS = {
  '5m': { ms: 300_000, retentionDays: 7 },
  '1h': { ms: HOUR_MS, retentionDays: 30 },
  '1d': { ms: DAY_MS, retentionDays: 365 },
} as const satisfies Record<string, CandleInterval>

/** The start of the oldest bucket that is still kept. */
export const oldestBucket = ({ ms, retentionDays }: CandleInterval, now: Instant): Instant =>
  Math.floor((now - retentionDays * DAY_MS) / ms) * ms
