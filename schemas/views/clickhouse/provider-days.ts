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
import type { Side } from '../../events/book-changed.ts'
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
}

/** Version of a day that set no price. */
export const UNPRICED = -1

/** Version of a close from a history file; higher for a later record, and below every version of the book's own. */
export const historyVersion = (offset: number): number => offset - 2 ** 52

/** A row that {@link selectProviderDays} answers. */
export interface ProviderDayRow {
  item_id: number
  side: Side
  provider: string
  /** YYYY-MM-DD. */
  day: string
  /** Null on a day that set no price: the last close before it counts. */
  price: number | null
  price_micro_usd: number | null
  currency: string | null
  quantity: number
  listed: boolean
}

/**
 * Reads closes, one per item, side, provider and day, where `condition` holds (over the key's columns).
 *
 * Not by FINAL: it does not merge what is read of a column by its parts (`priced.version`).
 */
export function selectProviderDays(database: string, condition: string): string {
  return `SELECT item_id, side, provider, day,
  if(last_priced.version = ${UNPRICED}, NULL, last_priced.price) AS price,
  if(last_priced.version = ${UNPRICED}, NULL, last_priced.price_micro_usd) AS price_micro_usd,
  if(last_priced.version = ${UNPRICED}, NULL, last_priced.currency) AS currency,
  last_closing.quantity AS quantity, last_closing.listed AS listed
  FROM (
    SELECT item_id, side, provider, day, max(priced) AS last_priced, max(closing) AS last_closing
    FROM ${database}.provider_days WHERE ${condition} GROUP BY item_id, side, provider, day
  )`
}

/** What {@link selectDayColumns} answers, a row per provider and item. */
export const DAY_SHAPE = {
  provider: 'text',
  item_id: 'number',
  /** Days since 1970. */
  days: 'numbers',
  /** 1 where the day set no price: the close before it counts. */
  unpriced: 'numbers',
  prices: 'numbers',
  micros: 'numbers',
  currencies: 'texts',
  quantities: 'numbers',
  /** 1 where the day ended listed. */
  listed: 'numbers',
} as const

/**
 * Reads the changed days of asks column by column, one row per provider and item; parameters `items`, `providers`,
 * `start_day`, `end_day` (days since 1970, half-open). Of the days before the window only the last comes along, which tells
 * whether and at what price it begins: a listed day has a price. One pass, and numbers instead of tuples, which are compared
 * value by value; columns are a third of the bytes of rows. FINAL with whole columns, as candle_parts is read, took 36 ms for a
 * year of 41 providers where this takes 23.
 */
export function selectDayColumns(database: string): string {
  const last = (of: string, members: readonly string[]): string[] =>
    members.map(member => `argMax(${of}.${member}, ${of}.version) AS ${member}`)
  const members = [
    ...last('priced', ['price', 'price_micro_usd', 'currency']),
    ...last('closing', ['quantity', 'listed']),
  ]
  const numbers = (of: string): string => `groupArray(toFloat64(${of}))`
  return `SELECT toString(provider), toFloat64(item_id), ${numbers('toInt32(day)')}, ${numbers(`version = ${UNPRICED}`)},
    ${numbers('price')}, ${numbers('price_micro_usd')}, groupArray(currency), ${numbers('quantity')}, ${numbers('listed')}
  FROM (
    SELECT provider, item_id, day, max(priced.version) AS version, ${members.join(', ')}
    FROM ${database}.provider_days
    WHERE item_id IN {items:Array(UInt32)} AND side = 'ask' AND provider IN {providers:Array(String)}
      AND day < toDate({end_day:Int32})
    GROUP BY provider, item_id, day
    ORDER BY day DESC LIMIT 1 BY provider, item_id, greatest(day, toDate({start_day:Int32} - 1))
  ) GROUP BY provider, item_id`
}
