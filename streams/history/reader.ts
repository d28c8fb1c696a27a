/**
 * Reads changes and provider_days.
 *
 * Invariant: the order of {@link readHistory} is total (time, item, provider, position in the log), so a cursor continues
 * exactly where a page ended, whatever was inserted meanwhile. What services ask of the tables is exported from here alone.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import { inTurns } from '#infra/runtime/turns.ts'
import { DAY_MS, type Instant } from '#schemas/values/instant.ts'
import type { MicroUsd } from '#schemas/values/money.ts'
import { type Chart, composeChart } from './chart.ts'
import { UNPRICED } from './table.ts'

export type { Chart } from './chart.ts'
export { type CloseScope, countCloses, readCloses } from './closes.ts'
export { CHANGES_RETENTION_DAYS } from './table.ts'

interface ObservedAsk {
  item_id: number
  seen_at: Instant
  provider: string
  price: number
  currency: string
  price_micro_usd: MicroUsd
  quantity: number
  partition: number
  offset: number
}

type SortKey = readonly (string | number)[]

/** Undefined = no such filter. */
interface HistoryScan {
  itemIds: readonly number[]
  provider: string | undefined
  /** Half-open. */
  start: Instant
  end: Instant
  limit: number
  after: SortKey | undefined
}

/** Reads up to `limit` observed asks, newest first, and whether more follow. Withdrawals carry no price and are left out. */
export async function readHistory(
  clickhouse: ClickhouseReader,
  scan: HistoryScan,
): Promise<{ asks: ObservedAsk[]; hasNext: boolean }> {
  const { itemIds, provider, start, end, limit, after } = scan
  const order = 'seen_at DESC, item_id DESC, provider DESC, partition DESC, offset DESC'
  const isProvider = provider === undefined ? '' : 'AND provider = {provider:String}'
  const isAfter = after === undefined ? '' : AFTER
  const asks = await clickhouse.rows<ObservedAsk>(
    `SELECT item_id, toUnixTimestamp64Milli(seen_at) AS seen_at, provider, price, currency, price_micro_usd,
      quantity, partition, offset
    FROM (SELECT * FROM ${clickhouse.database}.changes FINAL
      WHERE item_id IN {items:Array(UInt32)} AND side = 'ask' AND change != 'removed'
        AND seen_at >= fromUnixTimestamp64Milli({start:Int64}, 'UTC')
        AND seen_at < fromUnixTimestamp64Milli({end:Int64}, 'UTC')
        ${isProvider} ${isAfter}
      ORDER BY ${order} LIMIT {count:UInt32})
    ORDER BY ${order}`,
    {
      items: itemIds,
      start,
      end,
      count: limit + 1,
      ...(provider !== undefined && { provider }),
      ...(after && Object.fromEntries(['at', 'item', 'key', 'partition', 'offset'].map((name, i) => [name, after[i]]))),
    },
  )
  return { asks: asks.slice(0, limit), hasNext: asks.length > limit }
}

/** With the first comparison alone the server skips what the tuple would make it read. */
const AFTER = `AND seen_at <= fromUnixTimestamp64Milli({at:Int64}, 'UTC')
  AND (seen_at, item_id, provider, partition, offset) <
    (fromUnixTimestamp64Milli({at:Int64}, 'UTC'), {item:UInt32}, {key:String}, {partition:UInt16}, {offset:UInt64})`

export const historyKey = (ask: ObservedAsk): SortKey => [
  ask.seen_at,
  ask.item_id,
  ask.provider,
  ask.partition,
  ask.offset,
]

/** SQL: whether a change came after a moment, the name of a parameter. */
const seenAfter = (moment: string): string => `seen_at > fromUnixTimestamp64Milli({${moment}:Int64}, 'UTC')`

export const PAST_WINDOWS_MS = { day: DAY_MS, week: 7 * DAY_MS, month: 30 * DAY_MS } as const

export type PastWindow = keyof typeof PAST_WINDOWS_MS

/** The first change after a moment: whether there was one, and the ask that it found. */
type Found = [count: number, micro: MicroUsd | null]

export interface ProviderPast {
  provider: string
  units_day: number
  units_week: number
  /** Units of a day, each at the ask that it was taken from, in micro-dollars. */
  value_day: number
  found_day: Found
  found_week: Found
  found_month: Found
}

export async function readItemPast(
  clickhouse: ClickhouseReader,
  itemId: number,
  now: number,
): Promise<ReadonlyMap<string, ProviderPast>> {
  const firstChange = (window: PastWindow): string => {
    const first = `argMinIf(tuple(previous_micro_usd), tuple(seen_at, partition, offset), ${seenAfter(window)}).1`
    return `(countIf(${seenAfter(window)}), ${first}) AS found_${window}`
  }
  const since = Object.fromEntries(Object.entries(PAST_WINDOWS_MS).map(([window, ms]) => [window, now - ms]))
  const rows = await clickhouse.rows<ProviderPast>(
    `WITH greatest(previous_quantity - quantity, 0) AS units
    SELECT provider, sumIf(units, ${seenAfter('day')}) AS units_day, sumIf(units, ${seenAfter('week')}) AS units_week,
      sumIf(units * ifNull(previous_micro_usd, 0), ${seenAfter('day')}) AS value_day,
      ${firstChange('day')}, ${firstChange('week')}, ${firstChange('month')}
    FROM ${clickhouse.database}.changes FINAL
    WHERE item_id = {item_id:UInt32} AND side = 'ask' AND ${seenAfter('month')} GROUP BY provider`,
    { item_id: itemId, ...since },
  )
  return new Map(rows.map(row => [row.provider, row]))
}

/** The order of a change, by time and offset, as one number: tuples are compared value by value, which takes ten times as long. */
const CHANGE_ORDER = 'bitShiftLeft(toUInt128(toUnixTimestamp64Milli(seen_at)), 64) + offset'
/** Means no ask: a nullable price would be carried through every group. */
const NONE = -1

/**
 * The lowest ask of each item that was listed at a moment, over the providers whose ask has changed since: the first change
 * after the moment holds what it found. Items without such an ask are left out.
 */
export async function readAsksBeforeChanges(
  clickhouse: ClickhouseReader,
  moment: Instant,
): Promise<Map<number, MicroUsd>> {
  const rows = await clickhouse.rows<{ item_id: number; micro: number }>(
    `SELECT item_id, min(found) AS micro FROM (
      SELECT item_id, argMin(ifNull(previous_micro_usd, ${NONE}), ${CHANGE_ORDER}) AS found
      FROM ${clickhouse.database}.changes WHERE side = 'ask' AND ${seenAfter('moment')} GROUP BY item_id, provider
    ) WHERE found != ${NONE} GROUP BY item_id`,
    { moment },
  )
  return new Map(rows.map(({ item_id, micro }) => [item_id, micro]))
}

/** Units by which listing counts fell after each of some moments, the earliest last, up to a moment. */
export async function readUnitsTaken(
  clickhouse: ClickhouseReader,
  moments: readonly Instant[],
  end: Instant,
): Promise<Map<number, number[]>> {
  const names = moments.map((_, i) => `m${i}`)
  const earliest = names.at(-1) as string
  const sums = names.map(name => `sumIf(previous_quantity - quantity, ${seenAfter(name)})`)
  const rows = await clickhouse.rows<{ item_id: number; units: number[] }>(
    `SELECT item_id, [${sums.join(', ')}] AS units FROM ${clickhouse.database}.changes FINAL
    WHERE side = 'ask' AND ${seenAfter(earliest)} AND seen_at <= fromUnixTimestamp64Milli({end:Int64}, 'UTC') AND previous_quantity > quantity GROUP BY item_id`,
    { ...Object.fromEntries(names.map((name, i) => [name, moments[i]])), end },
  )
  return new Map(rows.map(({ item_id, units }) => [item_id, units]))
}

export interface ChartWindow {
  start: Instant
  end: Instant
}

/** Reads the closes of items within a window, and of each provider's last day before it what that comes to, with which it begins. */
export async function readChart(
  clickhouse: ClickhouseReader,
  items: readonly number[],
  providers: readonly string[],
  { start, end }: ChartWindow,
): Promise<Chart> {
  const window = { start_day: start / DAY_MS, end_day: end / DAY_MS }
  const rows = `FROM ${clickhouse.database}.provider_days FINAL
    WHERE item_id IN {items:Array(UInt32)} AND side = 'ask' AND provider IN {providers:Array(String)}`
  const isBefore = 'day < toDate({start_day:Int32})'
  // Tuples are read whole and their members selected outside: FINAL would not merge a member that is read alone.
  const days = await clickhouse.columns(
    {
      texts: { provider: 'provider', currency: 'priced.currency' },
      numbers: {
        item_id: 'item_id',
        day: 'toUInt16(days.day)',
        is_priced: `priced.version != ${UNPRICED}`,
        price: 'priced.price',
        price_micro_usd: 'priced.price_micro_usd',
        listed: 'closing.listed',
        quantity: 'closing.quantity',
      },
      from: `FROM (
        SELECT provider, item_id, day, priced, closing ${rows} AND day < toDate({end_day:Int32})
          AND (NOT ${isBefore} OR (provider, item_id, day) IN
            (SELECT provider, item_id, max(day) ${rows} AND ${isBefore} GROUP BY provider, item_id))
      ) AS days ORDER BY provider, item_id, days.day SETTINGS max_threads = 1, do_not_merge_across_partitions_select_final = 1`,
    },
    { items, providers, ...window },
  )
  return inTurns(composeChart(days, window))
}
