/**
 * The exchange rates in force, one JSON text in Redis beside the position that it reflects, and the table fx_days in ClickHouse.
 * Writer: sink.ts, in the role `fx`.
 *
 * Rates keep all digits of their source as decimal text; read them with parseRate.
 */
import type { RowBuffer } from '#infra/clickhouse/row-buffer.ts'
import type { Table } from '#infra/clickhouse/table.ts'
import type { Instant } from '#schemas/values/instant.ts'

/** The exchange rates in force. */
export interface FxCurrent {
  /** When the source says that they were in force. */
  as_of: Instant
  /** Code → units per US dollar; USD is `1`. */
  rates: Record<string, string>
}

/** Key of the JSON text of {@link FxCurrent}; absent until the first table came. */
export const fxCurrentKey = (prefix = ''): string => `${prefix}{fx}:current`

/** Key of the position that {@link fxCurrentKey} reflects, the JSON text of a ViewPosition. */
export const fxPositionKey = (prefix = ''): string => `${prefix}{fx}:position`

/**
 * The exchange rates of each UTC day, for amounts of that day.
 *
 * Of several tables of a day the latest (`as_of`) wins. Kept for ever.
 */
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

/** The view, for the position of its part in ClickHouse. */
export const fxDaysView = { name: 'fx', topics: ['fx'], tables: [{ table: fxDays }] } as const

/** Appends the rates of a day, its number since 1970. */
export function writeRates(rows: RowBuffer, day: number, { as_of, rates }: FxCurrent): void {
  for (const [currency, rate] of Object.entries(rates)) {
    rows.u16(day)
    rows.text(currency)
    rows.text(rate)
    rows.i64(as_of)
    rows.endRow()
  }
}
