/**
 * Reads candle_parts and candle_standing, and composes candles of what they hold.
 *
 * A window lies on bucket edges and within the retention of its interval. Several items are composed into one series.
 */
import type { ClickhouseReader, Columns, Selection } from '#infra/clickhouse/clickhouse.ts'
import { inTurns } from '#infra/runtime/turns.ts'
import { CANDLE_INTERVALS, oldestBucket } from '#schemas/values/candle-interval.ts'
import { HOUR_MS, type Instant } from '#schemas/values/instant.ts'
import type { MicroUsd } from '#schemas/values/money.ts'
import { type Candle, type CandleWindow, composeCandles, fillCandles, type StandingAsk } from './compose.ts'
import type { EdgeTable, PartTable } from './table.ts'

export type { Candle, CandleWindow } from './compose.ts'

/** Separates a provider's key from an item's id; sorts before every character of a key. */
const SEPARATOR = '\0'
export const HOURS_OF_CLOSES = 24

/** Reads the candles of items, composed into one series, as of `now`. */
export async function readCandles(
  clickhouse: ClickhouseReader,
  itemIds: readonly number[],
  window: CandleWindow,
  { fill, now }: { fill: boolean; now: number },
): Promise<Candle[]> {
  const interval = Object.values(CANDLE_INTERVALS).find(({ ms }) => ms === window.intervalMs)
  const { database } = clickhouse
  // Asks of all phases count side by side, as those of providers of their own.
  const key = itemIds.length > 1 ? "concat(asks.provider, '\\0', toString(item_id))" : 'toString(asks.provider)'
  const params = {
    interval_s: window.intervalMs / 1000,
    items: itemIds,
    start_s: window.start / 1000,
    start_ms: window.start,
    end_s: window.end / 1000,
    // Parts before it are out of retention, whether they are gone yet or not.
    oldest_s: interval === undefined ? 0 : oldestBucket(interval, now) / 1000,
  }
  const [columns, standing] = await Promise.all([
    clickhouse.columns(selectParts(database, key, window.end + window.intervalMs > now), params),
    clickhouse.rows<StandingAsk>(selectStanding(database, key), params),
  ])
  const composed = await inTurns(composeCandles({ parts: partsOf(columns), standing }, window))
  const candles = fill ? fillCandles(composed, window) : composed.candles
  return itemIds.length > 1 ? candles.map(withoutItems) : candles
}

function withoutItems(candle: Candle): Candle {
  const key = (name: string) => name.split(SEPARATOR, 1)[0] as string
  const { o, h, l, c } = candle.providers
  return { ...candle, providers: { o: key(o), h: key(h), l: key(l), c: key(c) } }
}

const EDGES = ['opening', 'closing'] as const
const EDGE_MEMBERS = ['standing', 'micro', 'quantity', 'at'] as const

type EdgeColumn = `${(typeof EDGES)[number]}_${(typeof EDGE_MEMBERS)[number]}`

type PartNumber = 'bucket' | 'low' | 'high' | 'falls' | EdgeColumn

/**
 * Reads the parts of items within a window, and of each provider the last one before it and the first one after it. Edges are read whole
 * and their members selected outside: FINAL would not merge a member that is read alone. Behind a window up to the present bucket there
 * is that bucket alone, which is read with the window: every further read of the table takes 5 ms of the server, whatever it finds.
 */
function selectParts(database: string, key: string, isUpToNow: boolean): Selection<'provider', PartNumber> {
  const edges = EDGES.flatMap(edge => EDGE_MEMBERS.map(member => [`${edge}_${member}`, `${edge}.${member}`]))
  const parts = `SELECT * FROM ${database}.candle_parts FINAL WHERE interval_s = {interval_s:UInt32}
    AND item_id IN {items:Array(UInt32)} AND bucket >= toDateTime({oldest_s:UInt32})`
  const [start, end] = ['toDateTime({start_s:UInt32})', 'toDateTime({end_s:UInt32})']
  const [until, after] = isUpToNow
    ? ['', '']
    : [` AND bucket < ${end}`, `UNION ALL (${parts} AND bucket >= ${end} ORDER BY bucket LIMIT 1 BY item_id, provider)`]
  return {
    texts: { provider: key },
    numbers: {
      ...(Object.fromEntries(edges) as Record<EdgeColumn, string>),
      bucket: 'toUnixTimestamp(bucket) * 1000',
      low: 'low',
      high: 'high',
      falls: 'arraySum(mapValues(falls))',
    },
    from: `FROM (
      (${parts} AND bucket >= ${start}${until})
      UNION ALL (${parts} AND bucket < ${start} ORDER BY bucket DESC LIMIT 1 BY item_id, provider)
      ${after}
    ) AS asks SETTINGS max_threads = 1, do_not_merge_across_partitions_select_final = 1`,
  }
}

function partsOf(columns: Columns<'provider', PartNumber>): PartTable {
  const edgeOf = (edge: (typeof EDGES)[number]): EdgeTable => ({
    standing: columns[`${edge}_standing`],
    micro: columns[`${edge}_micro`],
    quantity: columns[`${edge}_quantity`],
    at: columns[`${edge}_at`],
  })
  return { ...columns, opening: edgeOf('opening'), closing: edgeOf('closing') }
}

/**
 * Reads of items the newest asks that were there before a window. All that the window needs: of a provider that has changed since, a
 * part holds more. By FINAL and with the asks of now it took 6 ms of the server's CPU, 3 of them to merge and write what is not used.
 */
function selectStanding(database: string, key: string): string {
  const members = EDGE_MEMBERS.map(member => `argMax(asks.${member}, asks.version) AS ${member}`)
  return `SELECT ${key} AS provider, ${members.join(', ')} FROM ${database}.candle_standing AS asks
  PREWHERE item_id IN {items:Array(UInt32)} AND asks.at < {start_ms:Int64} GROUP BY item_id, asks.provider SETTINGS max_threads = 1`
}

export interface ListedAsk {
  item_id: number
  /** The lowest ask of the providers that count; 0 where none of them lists the item. */
  lowest: MicroUsd
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
