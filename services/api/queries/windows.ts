/**
 * Which days, buckets and providers a request for past prices shows, by its tier and what is kept.
 *
 * Rules: DECISIONS.md, "Candles", "History and sales" and "History chart".
 */
import type { Provider } from '#infra/config/providers.ts'
import type { TierLimits } from '#infra/config/tiers.ts'
import { HttpError } from '#infra/http/http-error.ts'
import type { RawQuery } from '#infra/http/request.ts'
import { type CandlesQuery, parseLookback } from '#schemas/api/candles.ts'
import type { HistoryChartQuery } from '#schemas/api/history.ts'
import { CANDLE_INTERVALS, oldestBucket } from '#schemas/values/candle-interval.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, parseInstant } from '#schemas/values/instant.ts'
import type { CandleWindow } from '#streams/candles/reader.ts'
import { CHANGES_RETENTION_DAYS, type ChartWindow } from '#streams/history/reader.ts'

/** How long the newest 1h bucket is delayed, so that late refreshes are in it (DECISIONS.md, "Candles"). */
const HOUR_SETTLES_MS = MINUTE_MS
/** Buckets shown when a request names no window (DECISIONS.md, "Candles"). */
const DEFAULT_CANDLES_MS = { '5m': DAY_MS, '1h': 7 * DAY_MS, '1d': 30 * DAY_MS }
const DEFAULT_HISTORY_MS = 14 * DAY_MS
const DEFAULT_CHART_DAYS = 365

/** Refuses what a tier may not ask for, before anything is validated: the values are read only as far as that needs. */
export function demandCandleTier(raw: RawQuery, limits: TierLimits): void {
  const { interval = '1d', fill = 'false', start, end, lookback = '' } = raw
  const isKnown = typeof interval === 'string' && interval in CANDLE_INTERVALS
  if (isKnown && !limits.candle_intervals.some(allowed => allowed === interval)) {
    throw forbiddenTier(`Candles of ${interval} are for the tier pro and above.`)
  }
  if (limits.can_choose_window) return
  if (String(fill).toLowerCase() === 'true') throw forbiddenTier('fill is for the tier pro and above.')
  if (start !== undefined || end !== undefined) {
    throw forbiddenTier('start and end are for the tier pro and above; use lookback.')
  }
  if (parseLookback(String(lookback))?.unit === 'h') {
    throw forbiddenTier('A lookback in hours is for the tier pro and above.')
  }
}

const forbiddenTier = (detail: string): HttpError => new HttpError('FORBIDDEN_TIER', detail)

/** The effective window of a query at a time: what is shown, and the bucket edges around it. */
interface EffectiveWindow extends CandleWindow {
  /** The exclusive end as the client sees it; `end` is the bucket edge at or after it. */
  shownEnd: number
}

/** Decides the window of a query; see DECISIONS.md, "Candles". */
export function windowOf(
  query: Pick<CandlesQuery, 'interval' | 'lookback' | 'start' | 'end'>,
  now: number,
): EffectiveWindow {
  const interval = CANDLE_INTERVALS[query.interval]
  const intervalMs = interval.ms
  const floor = (time: number) => Math.floor(time / intervalMs) * intervalMs
  const ceil = (time: number) => Math.ceil(time / intervalMs) * intervalMs
  const oldest = oldestBucket(interval, now)
  const lookback = query.lookback === undefined ? undefined : parseLookback(query.lookback)
  if (lookback) {
    const end = floor(query.interval === '1h' ? now - HOUR_SETTLES_MS : now)
    const start = floor(end - lookback.count * (lookback.unit === 'h' ? HOUR_MS : DAY_MS))
    return { start: Math.max(start, oldest), end, shownEnd: end, intervalMs }
  }
  const shownEnd = Math.min(parseInstant(query.end ?? '') ?? now, now)
  const start = parseInstant(query.start ?? '') ?? shownEnd - DEFAULT_CANDLES_MS[query.interval]
  const end = ceil(shownEnd)
  return { start: Math.min(Math.max(ceil(start), oldest), end), end, shownEnd, intervalMs }
}

/** The window of a request for single changes at a time: 14 days by default, and never beyond the retention. */
export function historyWindow(bounds: { start?: number; end?: number }, now: number): { start: number; end: number } {
  const end = bounds.end ?? now
  const start = bounds.start ?? end - DEFAULT_HISTORY_MS
  return { start: Math.max(start, now - CHANGES_RETENTION_DAYS * DAY_MS), end }
}

/** The window of a request for a chart at a time; a start or end within a day takes the whole day. */
export function chartWindow(query: Pick<HistoryChartQuery, 'start' | 'end' | 'lookback'>, now: number): ChartWindow {
  const end = Math.min(parseInstant(query.end ?? '') ?? now, now)
  const requestedStart = query.lookback === undefined ? parseInstant(query.start ?? '') : end - query.lookback * DAY_MS
  const start = requestedStart ?? end - DEFAULT_CHART_DAYS * DAY_MS
  return { start: Math.floor(start / DAY_MS) * DAY_MS, end: Math.ceil(end / DAY_MS) * DAY_MS }
}

/** The providers to show: those asked for, all when none is, the defunct ones only when they are wanted. */
export function chartProviders(
  providers: readonly Provider[],
  query: Pick<HistoryChartQuery, 'providers' | 'include_defunct'>,
): string[] {
  return providers
    .filter(({ key, is_defunct }) => (query.providers?.includes(key) ?? true) && (query.include_defunct || !is_defunct))
    .map(({ key }) => key)
}
