/**
 * changes: every change of every provider's ask and bid, as market.book-changes has it. Writer: streams/history.
 *
 * Invariant: a row's key names its record in the log (partition, offset), so that a record written
 * twice is one row after merging. A reader that does not use FINAL must drop repeats of (partition,
 * offset). Retention 35 days (DECISIONS.md, "History and sales").
 */
import type { Change, Side } from '../../events/book-changed.ts'
import type { Instant } from '../../values/instant.ts'
import type { Table } from './table.ts'

/** Days for which single changes are kept. */
export const CHANGES_RETENTION_DAYS = 35

/** The table's definition. */
export const changes: Table = {
  name: 'changes',
  writer: 'history',
  columns: {
    item_id: 'UInt32',
    side: "Enum8('ask' = 1, 'bid' = 2)",
    seen_at: "DateTime64(3, 'UTC')",
    provider: 'LowCardinality(String)',
    change: "Enum8('added' = 1, 'updated' = 2, 'removed' = 3)",
    price: 'Nullable(Int64)',
    currency: 'LowCardinality(String)',
    price_micro_usd: 'Nullable(Int64)',
    usd_rate: 'LowCardinality(String)',
    quantity: 'Int32',
    previous_micro_usd: 'Nullable(Int64)',
    previous_quantity: 'Int32',
    partition: 'UInt16',
    offset: 'UInt64',
  },
  engine: 'ReplacingMergeTree',
  orderBy: '(item_id, side, seen_at, provider, partition, offset)',
  partitionBy: 'toMonday(seen_at)',
  expires: `toDateTime(seen_at) + toIntervalDay(${CHANGES_RETENTION_DAYS})`,
}

/** A row as JSONEachRow shows it when `seen_at` is selected by toUnixTimestamp64Milli. */
export interface ChangeRow {
  item_id: number
  side: Side
  seen_at: Instant
  provider: string
  change: Change
  price: number | null
  currency: string
  price_micro_usd: number | null
  usd_rate: string
  quantity: number
  previous_micro_usd: number | null
  previous_quantity: number
  partition: number
  offset: number
}
