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

/**
 * Reads closes, one per item, side, provider and day, where `condition` holds (over the key's columns).
 *
 * Not by FINAL: it does not merge what is read of a column by its parts (`priced.version`).
 */
export function selectProviderDays(database: string, condition: string): string {
  return `SELECT item_id, side, provider, day,
  if(last_priced.version < 0, NULL, last_priced.price) AS price,
  if(last_priced.version < 0, NULL, last_priced.price_micro_usd) AS price_micro_usd,
  if(last_priced.version < 0, NULL, last_priced.currency) AS currency,
  last_closing.quantity AS quantity, last_closing.listed AS listed
  FROM (
    SELECT item_id, side, provider, day, max(priced) AS last_priced, max(closing) AS last_closing
    FROM ${database}.provider_days WHERE ${condition} GROUP BY item_id, side, provider, day
  )`
}
