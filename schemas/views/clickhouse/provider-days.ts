/**
 * provider_days: how each provider's ask or bid for an item closed each UTC day on which it changed.
 * Writer: streams/history.
 *
 * `priced` is the last change of the day that set a price, `closing` the last change of any kind.
 * Rows of a key merge by log offset, so order and repeats of writing do not matter. A day whose only
 * changes are withdrawals has no price of its own (`priced.version` -1): it closes at the price of the
 * day before it. Kept for ever (the history chart reaches back years).
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
  partitionBy: 'toYYYYMM(day)',
}

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

/** Reads closes, one per item, side, provider and day, where `condition` holds (over the row's own columns). */
export function selectProviderDays(database: string, condition: string): string {
  return `SELECT item_id, side, provider, day,
  if(priced.version < 0, NULL, priced.price) AS price,
  if(priced.version < 0, NULL, priced.price_micro_usd) AS price_micro_usd,
  if(priced.version < 0, NULL, priced.currency) AS currency,
  closing.quantity AS quantity, closing.listed AS listed
  FROM ${database}.provider_days FINAL WHERE ${condition}`
}
