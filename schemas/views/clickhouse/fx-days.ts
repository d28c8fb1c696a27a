/**
 * fx_days: the exchange rates of each UTC day, for amounts of that day. Writer: streams/fx.
 *
 * Invariant: of several tables of a day the latest (`as_of`) wins. Rates keep all digits of their
 * source as text. Kept for ever.
 */
import type { Table } from './table.ts'

/** The table's definition. */
export const fxDays: Table = {
  name: 'fx_days',
  writer: 'fx',
  columns: {
    day: 'Date',
    currency: 'LowCardinality(String)',
    rate: 'String',
    as_of: "DateTime64(3, 'UTC')",
  },
  engine: 'ReplacingMergeTree(as_of)',
  orderBy: '(currency, day)',
  partitionBy: 'toYear(day)',
}

/** A row as JSONEachRow shows it. */
export interface FxDayRow {
  /** YYYY-MM-DD. */
  day: string
  currency: string
  /** Units of the currency per US dollar, decimal text. */
  rate: string
}
