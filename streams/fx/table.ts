/**
 * The table fx_days: the exchange rates of each UTC day, for amounts of that day. Writer: fold.ts, in the role `fx`.
 *
 * Of several tables of a day the latest (`as_of`) wins; the rates in force are those of the latest of all. Rates keep all digits of
 * their source as decimal text; read them with parseRate. Kept for ever.
 */
import type { Table } from '#infra/clickhouse/table.ts'

export const fxDays: Table = {
  name: 'fx_days',
  writer: 'fx',
  columns: {
    day: 'Date',
    currency: 'LowCardinality(String)',
    rate: 'String',
    as_of: "DateTime64(3, 'UTC')",
    version: 'UInt64',
  },
  engine: 'ReplacingMergeTree(as_of)',
  orderBy: '(currency, day)',
  partitionBy: 'toYear(day)',
}

export interface DayRate {
  /** Since 1970-01-01. */
  day: number
  currency: string
  /** Units per US dollar. */
  rate: string
  as_of: number
  /** Of the record that it rests on. */
  version: number
}
