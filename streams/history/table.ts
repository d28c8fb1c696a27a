/**
 * The tables changes and provider_days. Writer: fold.ts, in the role `history`.
 *
 * Invariant: a change is keyed by its partition and version and a day merges by version, so writing a record again changes
 * nothing for readers.
 */
import type { Table } from '#infra/clickhouse/table.ts'
import type { Side } from '#schemas/events/book-changed.ts'

export interface Day {
  item_id: number
  side: Side
  provider: string
  /** Days since 1970. */
  day: number
  /** The last change that set a price; {@link NO_PRICE} when none did. */
  priced: { version: number; price: number; price_micro_usd: number; currency: string }
  closing: { version: number; listed: boolean; quantity: number }
}

/** Days for which single changes are kept (DECISIONS.md, "History and sales"). */
export const CHANGES_RETENTION_DAYS = 35

/**
 * Every change of every provider's ask and bid, as market.book-changes has it.
 *
 * A row's key names its record in the log by its partition and, in the column `offset`, its version, so that a record written twice is
 * one row after merging. A reader that does not use FINAL must drop repeats of (partition, offset).
 */
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

/**
 * How each provider's ask or bid for an item closed each UTC day on which it changed.
 *
 * `priced` is the last change of the day that set a price, `closing` the last change of any kind. Rows of a key merge by log
 * offset, so order and repeats of writing do not matter. A day whose only changes are withdrawals has no price of its own
 * (`priced.version` -1): it closes at the price of the day before it. Closes of history files have versions far below, so
 * that what the book saw wins; a quantity of -1 is one that is not known. Kept for ever (the history chart reaches back years).
 */
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
export const NO_PRICE: Day['priced'] = { version: UNPRICED, price: 0, price_micro_usd: 0, currency: '' }

/** Version of a close from a history file; higher for a later record, and below every version of the book's own. */
export const historyVersion = (version: number): number => version - 2 ** 52
