/**
 * Reads candle_parts and candle_standing, and composes candles of what they hold.
 *
 * A window lies on bucket edges and within the retention of its interval. Several items are composed into one series: the
 * asks of all phases of a finish count side by side.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import { inTurns } from '#infra/runtime/turns.ts'
import { CANDLE_INTERVALS, oldestBucket } from '#schemas/values/candle-interval.ts'
import { HOUR_MS, type Instant } from '#schemas/values/instant.ts'
import type { MicroUsd } from '#schemas/values/money.ts'
import { type Candle, type CandleWindow, composeCandles, fillCandles, type StandingAsk } from './compose.ts'
import {
  type CandlePartsParams,
  mergeRows,
  PART_SHAPE,
  type PartAround,
  type PartsBeside,
  partAround,
  selectCandleParts,
  selectPartsBeside,
} from './part-rows.ts'
import { joinTables, type PartTable, partTable } from './part-table.ts'

export type { Candle, CandleWindow } from './compose.ts'

/** Separates a provider's key from an item's id; sorts before every character of a key. */
const OF_ITEM = '\0'
/** For how many hours {@link readHourlyCloses} answers. */
export const HOURS_OF_CLOSES = 24

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
  const parts = await inTurns(joinTables(sources.map(({ parts }) => parts)))
  const standing = sources.flatMap(({ standing }) => standing)
  const composed = await inTurns(composeCandles({ parts, standing }, window))
  const candles = fill ? fillCandles(composed, window) : composed.candles
  return itemIds.length > 1 ? candles.map(withoutItems) : candles
}

/** Which parts are read for a window: those within, and on which sides there may be others. */
interface Reach {
  oldest: number
  end: number
  beside: readonly PartsBeside[]
}

/**
 * A window that ends now is read to the newest bucket there is, and one that begins with the retention from the oldest: then
 * there are no parts outside it, and a month of 41 providers is one query less.
 */
function reachOf({ start, end, intervalMs }: CandleWindow, now: number): Reach {
  const interval = Object.values(CANDLE_INTERVALS).find(({ ms }) => ms === intervalMs)
  const oldest = oldestBucket(interval ?? { ms: intervalMs, retentionDays: 0 }, now)
  const isNow = end > now - intervalMs
  return {
    oldest,
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
  }
  const [parts, standing] = await Promise.all([
    readCandleParts(clickhouse, params, reach.beside),
    clickhouse.rows<StandingAsk>(selectCandleStanding(clickhouse.database), {
      item_id: itemId,
      before_ms: window.start,
    }),
  ])
  if (!isOneOfMany) return { parts, standing }
  // One text of each: a new one of each of some hundred thousand rows was compared again and again.
  const named = new Map<string, string>()
  const ofItem = (provider: string): string => {
    const name = named.get(provider) ?? `${provider}${OF_ITEM}${itemId}`
    named.set(provider, name)
    return name
  }
  return {
    parts: { ...parts, provider: parts.provider.map(ofItem) },
    standing: standing.map(ask => ({ ...ask, provider: ofItem(ask.provider) })),
  }
}

export async function readCandleParts(
  clickhouse: ClickhouseReader,
  params: CandlePartsParams,
  beside: readonly PartsBeside[] = ['before', 'after'],
): Promise<PartTable> {
  const { database } = clickhouse
  const [stored, ...around] = await Promise.all([
    clickhouse.columns(selectCandleParts(database), PART_SHAPE, params),
    ...beside.map(side => clickhouse.rows<PartAround>(selectPartsBeside(database, side), params)),
  ])
  const parts = mergeRows(stored, params.interval_s)
  const beyond = around.flat().map(partAround)
  return beyond.length === 0 ? parts : inTurns(joinTables([parts, partTable(beyond)]))
}

function withoutItems(candle: Candle): Candle {
  const key = (name: string) => name.split(OF_ITEM, 1)[0] as string
  const { o, h, l, c } = candle.providers
  return { ...candle, providers: { o: key(o), h: key(h), l: key(l), c: key(c) } }
}

/**
 * Reads of an item (parameter `item_id`) the newest asks that were there before a time (`before_ms`) as {@link StandingAsk}.
 *
 * All that a window from then on needs: of a provider that has changed since, a part holds more. By FINAL and with the asks of
 * now it took 6 ms of the server's CPU, 3 of them to merge and write what is not used.
 */
export function selectCandleStanding(database: string): string {
  const members = (['standing', 'micro', 'quantity', 'at'] as const).map(
    member => `argMax(asks.${member}, asks.version) AS ${member}`,
  )
  return `SELECT provider, ${members.join(', ')} FROM ${database}.candle_standing AS asks
  PREWHERE item_id = {item_id:UInt32} AND asks.at < {before_ms:Int64} GROUP BY provider SETTINGS max_threads = 1`
}

export interface ListedAsk {
  item_id: number
  /** The lowest ask of the providers that count; 0 where none of them lists the item. */
  lowest: MicroUsd
  /** How many of them list it. */
  providers: number
}

/**
 * The listed asks of every item, whatever was withdrawn included; asks of some providers do not count.
 *
 * Rows of candle_parts are inserted before those of candle_standing, so parts that are read afterwards hold these changes too.
 */
export const readListedAsks = (clickhouse: ClickhouseReader, without: readonly string[]): Promise<ListedAsk[]> =>
  clickhouse.rows<ListedAsk>(
    `SELECT item_id, minIf(micro, counts) AS lowest, countIf(counts) AS providers
    FROM (
      SELECT item_id, micro, standing AND NOT has({without:Array(String)}, provider) AS counts
      FROM ${clickhouse.database}.candle_standing FINAL
    ) GROUP BY item_id ORDER BY item_id SETTINGS max_threads = 1`,
    { without },
  )

/**
 * The composite ask of every item that was listed at the start of a bucket: the lowest of what each provider's first change
 * since then found, and of the asks that have not changed since.
 */
export async function readCompositesAt(
  clickhouse: ClickhouseReader,
  start: Instant,
  intervalMs: number,
): Promise<Map<number, MicroUsd>> {
  const rows = await clickhouse.rows<{ item_id: number; lowest: MicroUsd }>(
    `SELECT item_id, min(ask) AS lowest FROM (
      SELECT item_id, micro AS ask FROM ${clickhouse.database}.candle_standing FINAL
      WHERE standing AND at < {start_s:UInt32} * 1000
      UNION ALL
      SELECT item_id, argMin(if(opening.standing, opening.micro, 0), opening.version) AS ask
      FROM ${clickhouse.database}.candle_parts
      WHERE interval_s = {interval_s:UInt32} AND bucket >= toDateTime({start_s:UInt32}, 'UTC')
      GROUP BY item_id, provider HAVING ask > 0
    ) GROUP BY item_id SETTINGS max_threads = 1`,
    { start_s: start / 1000, interval_s: intervalMs / 1000 },
  )
  return new Map(rows.map(({ item_id, lowest }) => [item_id, lowest]))
}

/** Of which parts {@link readFallenUnits} sums the falls. */
interface FallenUnits {
  intervalMs: number
  /** Starts of buckets; a sum is made from each of them on. */
  starts: readonly Instant[]
  /** The start of the first bucket that is left out; none is by default. */
  end?: Instant
}

/**
 * Units by which the listing counts of each item fell from some buckets on, each fall once; items without any part are left out.
 *
 * A week of 10 million parts takes 3 s by FINAL, and took 10 where falls were merged by GROUP BY.
 */
export async function readFallenUnits(
  clickhouse: ClickhouseReader,
  { intervalMs, starts, end }: FallenUnits,
): Promise<Map<number, number[]>> {
  const sums = starts.map((_, i) => `sumIf(fallen, bucket >= toDateTime({start_${i}:UInt32}, 'UTC'))`)
  const rows = await clickhouse.rows<{ item_id: number; units: number[] }>(
    `SELECT item_id, [${sums.join(', ')}] AS units FROM (
      SELECT item_id, bucket, arraySum(mapValues(falls)) AS fallen FROM ${clickhouse.database}.candle_parts FINAL
      WHERE interval_s = {interval_s:UInt32} AND bucket >= toDateTime({first:UInt32}, 'UTC')
        AND toUnixTimestamp(bucket) < {end_s:UInt32}
    ) GROUP BY item_id SETTINGS max_threads = 1, do_not_merge_across_partitions_select_final = 1`,
    {
      interval_s: intervalMs / 1000,
      first: Math.min(...starts) / 1000,
      end_s: end === undefined ? LAST_BUCKET_S : end / 1000,
      ...Object.fromEntries(starts.map((start, i) => [`start_${i}`, start / 1000])),
    },
  )
  return new Map(rows.map(({ item_id, units }) => [item_id, units]))
}

/** The last second that a bucket can have. */
const LAST_BUCKET_S = 2 ** 32 - 1

/** How the asks of an item closed an hour in which one of them changed, over the providers that have changed since. */
interface HourlyClose {
  item_id: number
  /** Of each hour: its number from the first, the lowest listed ask (0: none), and the ask that was withdrawn last. */
  hours: [hour: number, listed: MicroUsd, withdrawn: MicroUsd][]
}

/** The closes of all items in the {@link HOURS_OF_CLOSES} hours from the start of an hour on. */
export const readHourlyCloses = (clickhouse: ClickhouseReader, start: Instant): Promise<HourlyClose[]> =>
  clickhouse.rows<HourlyClose>(selectHourlyCloses(clickhouse.database), { start_s: start / 1000 })

/**
 * Per provider the ask at the end of an hour: of its last part up to then, else what its first part after found. Then per
 * item, and of the hours in which it changed alone, the lowest that is listed, else the one that was withdrawn last.
 * A withdrawn ask is a negative number here, none is 0.
 */
const selectHourlyCloses = (database: string): string => `
WITH parts AS (
  SELECT item_id, provider, toUnixTimestamp(bucket) AS start,
    argMin(if(opening.standing, opening.micro, 0), opening.version) AS opened,
    argMax(if(closing.standing, closing.micro, -closing.micro), closing.version) AS closed,
    argMax(closing.at, closing.version) AS closed_at
  FROM ${database}.candle_parts WHERE interval_s = 3600 AND bucket >= toDateTime({start_s:UInt32}, 'UTC')
  GROUP BY item_id, provider, bucket
)
SELECT item_id, groupArray((toUInt32((hour_s - {start_s:UInt32}) / 3600), standing, withdrawn)) AS hours FROM (
  SELECT item_id, hour_s, minIf(edge, edge > 0) AS standing, argMaxIf(-edge, toInt128(edge_at) * 4611686018427387904 + edge, edge < 0) AS withdrawn
  FROM (
    SELECT item_id, hour_s, arrayLastIndex(start -> start <= hour_s, starts) AS last,
      if(last = 0, first_opened, closes[last]) AS edge, if(last = 0, 0, closed_ats[last]) AS edge_at
    FROM (
      SELECT item_id, arraySort(groupArray(start)) AS starts,
        arraySort((close, start) -> start, groupArray(closed), groupArray(start)) AS closes,
        arraySort((at, start) -> start, groupArray(closed_at), groupArray(start)) AS closed_ats,
        argMin(opened, start) AS first_opened
      FROM parts GROUP BY item_id, provider
    ) AS asks
    INNER JOIN (
      SELECT item_id, groupUniqArray(start) AS hours FROM parts
      WHERE start < {start_s:UInt32} + ${(HOURS_OF_CLOSES * HOUR_MS) / 1000} GROUP BY item_id
    ) AS changed USING item_id
    ARRAY JOIN hours AS hour_s
  ) GROUP BY item_id, hour_s
) GROUP BY item_id`
