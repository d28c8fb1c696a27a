/**
 * Past figures of every item: composite best asks of past moments, units consumed, hourly closes, sales.
 *
 * Reads ClickHouse (changes and candle_parts; sales_by_time). Invariant: a composite of a past moment is the lowest ask
 * that was listed then, over all providers. A provider whose ask has not changed since is known from the board; one whose ask
 * has, from the first change after the moment, which holds what it found. So a query reads only what came after.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import type { Instant } from '#schemas/values/instant.ts'
import type { MicroUsd } from '#schemas/values/money.ts'
import type { Board } from './board.ts'

/** Item → a figure. */
export type ByItem<T> = ReadonlyMap<number, T>

const HOUR_MS = 3_600_000
const HOURS = 24

/** The start of the hour of a moment. */
export const hourOf = (moment: Instant): Instant => Math.floor(moment / HOUR_MS) * HOUR_MS

const after = (name: string): string => `seen_at > fromUnixTimestamp64Milli({${name}:Int64}, 'UTC')`
const until = (name: string): string => `seen_at <= fromUnixTimestamp64Milli({${name}:Int64}, 'UTC')`

/** Means no ask: a nullable price would be carried through every group. */
const NONE = -1
/** The order of a change, by time and offset, as one number: tuples are compared value by value, which takes ten times as long. */
const CHANGE_ORDER = 'bitShiftLeft(toUInt128(toUnixTimestamp64Milli(seen_at)), 64) + offset'

/** The composite best ask of a past moment; items that were not listed then are left out. */
export async function readAsksAt(
  clickhouse: ClickhouseReader,
  board: Board,
  moment: Instant,
): Promise<Map<number, MicroUsd>> {
  const rows = await clickhouse.rows<{ item_id: number; micro: number }>(
    `SELECT item_id, min(found) AS micro FROM (
      SELECT item_id, argMin(ifNull(previous_micro_usd, ${NONE}), ${CHANGE_ORDER}) AS found
      FROM ${clickhouse.database}.changes WHERE side = 'ask' AND ${after('moment')} GROUP BY item_id, provider
    ) WHERE found != ${NONE} GROUP BY item_id`,
    { moment },
  )
  const asks = new Map(rows.map(({ item_id, micro }) => [item_id, micro]))
  for (const [itemId, unchanged] of lowestSince(board, moment)) {
    asks.set(itemId, Math.min(asks.get(itemId) ?? Number.POSITIVE_INFINITY, unchanged))
  }
  return asks
}

/** The lowest ask of each item among those that have not changed since a moment. */
function* lowestSince(board: Board, moment: Instant): Generator<[itemId: number, micro: MicroUsd]> {
  const { providers, microUsd, seenAt } = board.sides.ask
  for (let slot = 0; slot < board.size; slot++) {
    let lowest = Number.POSITIVE_INFINITY
    for (let cell = slot * providers.length; cell < (slot + 1) * providers.length; cell++) {
      const micro = microUsd[cell] as number
      if (micro !== 0 && micro < lowest && (seenAt[cell] as number) <= moment) lowest = micro
    }
    if (lowest !== Number.POSITIVE_INFINITY) yield [board.itemId(slot), lowest]
  }
}

/** Units by which listing counts fell after each of some moments, the earliest last, up to a moment. */
export async function readUnits(
  clickhouse: ClickhouseReader,
  moments: readonly Instant[],
  end: Instant,
): Promise<Map<number, number[]>> {
  const names = moments.map((_, i) => `m${i}`)
  const earliest = names.at(-1) as string
  const sums = names.map(name => `sumIf(previous_quantity - quantity, ${after(name)})`)
  const rows = await clickhouse.rows<{ item_id: number; units: number[] }>(
    `SELECT item_id, [${sums.join(', ')}] AS units FROM ${clickhouse.database}.changes FINAL
    WHERE side = 'ask' AND ${after(earliest)} AND ${until('end')} AND previous_quantity > quantity GROUP BY item_id`,
    { ...Object.fromEntries(names.map((name, i) => [name, moments[i]])), end },
  )
  return new Map(rows.map(({ item_id, units }) => [item_id, units]))
}

interface HourRow {
  item_id: number
  /** Of each hour with a change: its number, the lowest listed ask (0: none), and the ask that was withdrawn last. */
  hours: [hour: number, listed: MicroUsd, withdrawn: MicroUsd][]
}

/**
 * The composite closes of the last 24 completed hours in which an ask of the item changed, oldest first; formulas as
 * those of candles (schemas/views/candle.ts).
 */
export async function readHourlyCloses(
  clickhouse: ClickhouseReader,
  board: Board,
  end: Instant,
): Promise<Map<number, number[]>> {
  const start = end - HOURS * HOUR_MS
  const rows = await clickhouse.rows<HourRow>(hourlyCloses(clickhouse.database), { start_s: start / 1000 })
  // An ask that changed just at the start has a part of its own.
  const unchanged = new Map(lowestSince(board, start - 1))
  const closes = new Map<number, number[]>()
  for (const { item_id, hours } of rows) {
    const own = unchanged.get(item_id) ?? Number.POSITIVE_INFINITY
    const values = hours.sort(([a], [b]) => a - b).map(([, listed, withdrawn]) => lowestOf(listed, own, withdrawn))
    closes.set(item_id, values)
  }
  return closes
}

/** The lower listed ask; where none is listed, the one that was withdrawn last. */
function lowestOf(listed: MicroUsd, unchanged: MicroUsd, withdrawn: MicroUsd): MicroUsd {
  const lowest = listed === 0 ? unchanged : Math.min(listed, unchanged)
  return Number.isFinite(lowest) ? lowest : withdrawn
}

/**
 * Per provider the ask at the end of an hour: of its last part up to then, else what its first part after found. Then per
 * item, and of the hours in which it changed alone, the lowest that is listed, else the one that was withdrawn last.
 * A withdrawn ask is a negative number here, none is 0.
 */
const hourlyCloses = (database: string): string => `
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
      WHERE start < {start_s:UInt32} + ${(HOURS * HOUR_MS) / 1000} GROUP BY item_id
    ) AS changed USING item_id
    ARRAY JOIN hours AS hour_s
  ) GROUP BY item_id, hour_s
) GROUP BY item_id`

/** Sales of a provider by item in the day up to a moment; undefined when it has reported none for two days. */
export async function readSales(
  clickhouse: ClickhouseReader,
  provider: string,
  end: Instant,
): Promise<ByItem<number> | undefined> {
  const day = HOURS * HOUR_MS
  const rows = await clickhouse.rows<{ item_id: number; recent: number }>(
    `SELECT item_id, uniqExactIf((sale_id, sold_at), sold_at > fromUnixTimestamp64Milli({day:Int64}, 'UTC')) AS recent
    FROM ${clickhouse.database}.sales_by_time
    WHERE provider = {provider:String} AND sold_at > fromUnixTimestamp64Milli({two_days:Int64}, 'UTC')
      AND sold_at <= fromUnixTimestamp64Milli({end:Int64}, 'UTC') GROUP BY item_id`,
    { provider, day: end - day, two_days: end - 2 * day, end },
  )
  return rows.length === 0 ? undefined : new Map(rows.map(({ item_id, recent }) => [item_id, recent]))
}
