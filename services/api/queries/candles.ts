/**
 * The candles of an item: which window, which parts, which tier.
 *
 * Reads the ClickHouse tables candle_parts and candle_standing (writer: streams/candles) and composes what
 * they hold (schemas/views/candle.ts). Invariant: the window lies on bucket edges and within the retention of
 * the interval. A name without phase composes all phases of the finish: their asks count side by side.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import type { TierLimits } from '#infra/config/tiers.ts'
import type { RawQuery } from '#infra/http/request.ts'
import { type CandlesQuery, parseLookback } from '#schemas/api/candles.ts'
import { parseInstant } from '#schemas/values/instant.ts'
import {
  CANDLE_INTERVALS,
  type Candle,
  type CandleWindow,
  composeCandles,
  fillCandles,
  joinTables,
  type PartTable,
  partTable,
} from '#schemas/views/candle.ts'
import {
  type CandlePartsParams,
  type FallsRead,
  mergeParts,
  PART_SHAPES,
  type PartAround,
  type PartFalls,
  type PartsBeside,
  partAround,
  selectCandleParts,
  selectPartFalls,
  selectPartsBeside,
} from '#schemas/views/clickhouse/candle-parts.ts'
import { type CandleStandingRow, selectCandleStanding } from '#schemas/views/clickhouse/candle-standing.ts'
import { forbiddenTier } from '../errors.ts'

const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
/** How long the newest 1h bucket is delayed, so that late refreshes are in it (DECISIONS.md, "Candles"). */
const HOUR_SETTLES_MS = 60_000
/** Buckets shown when a request names no window (DECISIONS.md, "Candles"). */
const DEFAULT_WINDOW_MS = { '5m': DAY_MS, '1h': 7 * DAY_MS, '1d': 30 * DAY_MS }
/** ClickHouse has merged most rows by then. */
const MERGED_AFTER_MS = HOUR_MS
/** Separates a provider's key from an item's id; sorts before every character of a key. */
const OF_ITEM = '\0'

/**
 * Refuses what a tier may not ask for, before anything is validated: the values are read only as far as
 * that needs.
 */
export function demandCandleTier(raw: RawQuery, limits: TierLimits): void {
  const { interval = '1d', fill = 'false', start, end, lookback = '' } = raw
  const isKnown = typeof interval === 'string' && interval in CANDLE_INTERVALS
  if (isKnown && !limits.candle_intervals.some(allowed => allowed === interval)) {
    throw forbiddenTier(`Candles of ${interval} are for the tier pro and above.`)
  }
  if (limits.can_choose_window) return
  if (/^(true|1|yes|on|t|y)$/i.test(String(fill))) throw forbiddenTier('fill is for the tier pro and above.')
  if (start !== undefined || end !== undefined) {
    throw forbiddenTier('start and end are for the tier pro and above; use lookback.')
  }
  if (parseLookback(String(lookback))?.unit === 'h') {
    throw forbiddenTier('A lookback in hours is for the tier pro and above.')
  }
}

/** The oldest bucket of an interval that is still kept. */
const oldestBucket = ({ ms, retentionDays }: { ms: number; retentionDays: number }, now: number): number =>
  Math.floor((now - retentionDays * DAY_MS) / ms) * ms

/** The effective window of a query at a time: what is shown, and the bucket edges around it. */
export interface EffectiveWindow extends CandleWindow {
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
  const start = parseInstant(query.start ?? '') ?? shownEnd - DEFAULT_WINDOW_MS[query.interval]
  const end = ceil(shownEnd)
  return { start: Math.min(Math.max(ceil(start), oldest), end), end, shownEnd, intervalMs }
}

/** Reads the candles of items, composed into one series, as of `now`. */
export async function readCandles(
  clickhouse: ClickhouseReader,
  itemIds: readonly number[],
  window: CandleWindow,
  { fill, now }: { fill: boolean; now: number },
): Promise<Candle[]> {
  const reach = reachOf(window, now)
  const sources = await Promise.all(
    itemIds.map(itemId => readSources(clickhouse, itemId, { window, reach, isOneOfMany: itemIds.length > 1 })),
  )
  const composed = composeCandles(
    { parts: joinTables(sources.map(({ parts }) => parts)), standing: sources.flatMap(({ standing }) => standing) },
    window,
  )
  const candles = fill ? fillCandles(composed, window) : composed.candles
  return itemIds.length > 1 ? candles.map(withoutItems) : candles
}

/** Which parts are read for a window: those within, and on which sides there may be others. */
interface Reach extends PartsReach {
  oldest: number
  fresh: number
  end: number
}

/** What is read of parts besides those of the window. */
interface PartsReach {
  beside: readonly PartsBeside[]
  falls: FallsRead
}

/**
 * A window that ends now is read to the newest bucket there is, and one that begins with the retention from the oldest: then
 * there are no parts outside it, and a month of 41 providers is one query less.
 */
function reachOf({ start, end, intervalMs }: CandleWindow, now: number): Reach {
  const interval = Object.values(CANDLE_INTERVALS).find(({ ms }) => ms === intervalMs)
  const oldest = oldestBucket(interval ?? { ms: intervalMs, retentionDays: 0 }, now)
  const isNow = end > now - intervalMs
  const fresh = Math.floor((now - MERGED_AFTER_MS) / intervalMs) * intervalMs
  return {
    oldest,
    // Of a window that ends before, parts after it are read for its edges alone.
    ...(end <= fresh ? { fresh: end, falls: 'summed' } : { fresh, falls: 'each' }),
    // A clock that is ahead may have opened the next bucket already.
    end: isNow ? end + 2 * intervalMs : end,
    beside: [...(start > oldest ? (['before'] as const) : []), ...(isNow ? [] : (['after'] as const))],
  }
}

async function readSources(
  clickhouse: ClickhouseReader,
  itemId: number,
  { window, reach, isOneOfMany }: { window: CandleWindow; reach: Reach; isOneOfMany: boolean },
) {
  const params: CandlePartsParams = {
    interval_s: window.intervalMs / 1000,
    item_id: itemId,
    start_s: window.start / 1000,
    end_s: reach.end / 1000,
    oldest_s: reach.oldest / 1000,
    fresh_s: reach.fresh / 1000,
  }
  const [parts, standing] = await Promise.all([
    readCandleParts(clickhouse, params, reach),
    clickhouse.rows<CandleStandingRow>(selectCandleStanding(clickhouse.database), {
      ...{ item_id: itemId, before_ms: window.start },
    }),
  ])
  if (!isOneOfMany) return { parts, standing }
  const ofItem = (provider: string): string => `${provider}${OF_ITEM}${itemId}`
  return {
    parts: { ...parts, provider: parts.provider.map(ofItem) },
    standing: standing.map(ask => ({ ...ask, provider: ofItem(ask.provider) })),
  }
}

/** Reads all parts that the candles of an item's window are composed of, those outside the window included. */
export async function readCandleParts(
  clickhouse: ClickhouseReader,
  params: CandlePartsParams,
  { beside, falls }: PartsReach = { beside: ['before', 'after'], falls: 'each' },
): Promise<PartTable> {
  const { database } = clickhouse
  const [stored, ...around] = await Promise.all([
    clickhouse.columns(selectCandleParts(database, falls), PART_SHAPES[falls], params),
    ...beside.map(side => clickhouse.rows<PartAround>(selectPartsBeside(database, side), params)),
  ])
  const { parts, doubled } = mergeParts(stored, params)
  if (doubled.length > 0) {
    const keyOf = (provider: string, start_s: number): string => `${start_s} ${provider}`
    const startOf = (row: number): number => (parts.bucket[row] as number) / 1000
    const buckets = [...new Set(doubled.map(startOf))]
    const rows = await clickhouse.rows<PartFalls>(selectPartFalls(database), { ...params, buckets })
    const fallenOf = new Map(rows.map(({ provider, bucket_s, fallen }) => [keyOf(provider, bucket_s), fallen]))
    for (const row of doubled) {
      const fallen = fallenOf.get(keyOf(parts.provider[row] as string, startOf(row)))
      if (fallen !== undefined) parts.falls[row] = fallen
    }
  }
  const beyond = around.flat().map(partAround)
  return beyond.length === 0 ? parts : joinTables([parts, partTable(beyond)])
}

function withoutItems(candle: Candle): Candle {
  const key = (name: string) => name.split(OF_ITEM, 1)[0] as string
  const { o, h, l, c } = candle.providers
  return { ...candle, providers: { o: key(o), h: key(h), l: key(l), c: key(c) } }
}
