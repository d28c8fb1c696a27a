/**
 * provider_days: how each provider's ask or bid for an item closed each UTC day on which it changed.
 * Writer: streams/history.
 *
 * `priced` is the last change of the day that set a price, `closing` the last change of any kind.
 * Rows of a key merge by log offset, so order and repeats of writing do not matter. A day whose only
 * changes are withdrawals has no price of its own (`priced.version` -1): it closes at the price of the
 * day before it. Closes of history files have versions far below, so that whatever the book saw wins; a quantity of -1
 * is one that is not known. Kept for ever (the history chart reaches back years).
 */
import type { Table } from './table.ts'

/** The table's definition. */
export const providerDays: Table = {
  name: 'provider_days',
  writer: 'history',
  columns: {
    item_id: 'UInt32',
    side: "Enum8('ask' = 1, 'bid' = 2)",
    provider: 'LowCardinality(String)',
    day: 'Date',
    priced: 'SimpleAggregateFunction(max, Tuple(version Int64, price Int64, price_micro_usd Int64, currency String))',
    closing: 'SimpleAggregateFunction(max, Tuple(version Int64, listed Bool, quantity Int32))',
  },
  engine: 'AggregatingMergeTree',
  orderBy: '(item_id, side, provider, day)',
  // Kept for ever, and a chart reads a year: monthly partitions would have it open ten times as many files.
  partitionBy: 'toYear(day)',
  granularity: 1_024,
  isCompact: true,
}

/** Version of a day that set no price. */
export const UNPRICED = -1

/** Version of a close from a history file; higher for a later record, and below every version of the book's own. */
export const historyVersion = (offset: number): number => offset - 2 ** 52

/** What {@link selectDayColumns} answers, a row per stored row. */
export const DAY_SHAPE = {
  provider: 'text',
  item_id: 'number',
  /** Days since 1970. */
  day: 'number',
  /** Its version is {@link UNPRICED} where the row set no price. */
  priced: { version: 'number', price: 'number', price_micro_usd: 'number', currency: 'text' },
  /** `listed` is 1 where it ended listed. */
  closing: { version: 'number', listed: 'number', quantity: 'number' },
} as const

/** Parameters of {@link selectDayColumns}; days since 1970, the window half-open. */
export interface DayColumnsParams extends Record<string, unknown> {
  items: readonly number[]
  /** Those to read alone; of all when there are none. */
  providers: readonly string[]
  start_day: number
  end_day: number
}

/**
 * Reads the stored rows of asks as they are within a window, and of each provider's last day before it what that comes to,
 * which gives whether and at what price the window begins: a listed day has a price. Of several rows of a day the highest
 * version counts, of price and close each. Merging a year of 41 providers in ClickHouse took twice as long as reading it, both
 * reads as one UNION ALL half as long again as side by side, and a list of 41 providers to look for 1.7 of 10.4 ms.
 */
export function selectDayColumns(
  database: string,
  days: 'within' | 'before',
  { providers }: Pick<DayColumnsParams, 'providers'>,
): string {
  const isWithin = days === 'within'
  const ofProviders = providers.length === 0 ? '' : 'AND provider IN {providers:Array(String)}'
  const columns = isWithin
    ? 'day, priced, closing'
    : 'max(days.day) AS day, max((days.day, days.priced)).2 AS priced, max((days.day, days.closing)).2 AS closing'
  return `SELECT provider, item_id, ${columns}
  FROM ${database}.provider_days AS days
  PREWHERE item_id IN {items:Array(UInt32)} AND side = 'ask' ${ofProviders} AND ${
    isWithin
      ? 'days.day >= toDate({start_day:Int32}) AND days.day < toDate({end_day:Int32})'
      : 'days.day < toDate({start_day:Int32}) GROUP BY provider, item_id'
  } SETTINGS max_threads = 1`
}
