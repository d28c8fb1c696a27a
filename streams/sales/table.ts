/**
 * sales and sales_by_time: every completed sale, once for reading by item, once for the feed of all.
 * Writer: fold.ts, in the role `sales`.
 *
 * Identity: item, time, provider and the provider's sale id. Invariant: of several sightings the
 * first in the log wins (`version` falls as that of its record rises), so a served sale never changes. A reader
 * that does not use FINAL takes one row BY (provider, sale_id, sold_at, item_id).
 */
import type { Table } from '#infra/clickhouse/table.ts'
import type { SaleCharm, SaleSticker } from '#schemas/events/sale-observed.ts'
import type { Instant } from '#schemas/values/instant.ts'

const columns = {
  item_id: 'UInt32',
  sold_at: "DateTime64(3, 'UTC')",
  provider: 'LowCardinality(String)',
  sale_id: 'String',
  price: 'Int64',
  currency: 'LowCardinality(String)',
  price_micro_usd: 'Int64',
  usd_rate: 'LowCardinality(String)',
  float: 'Nullable(Float64)',
  paint_seed: 'Nullable(Int32)',
  has_stickers: 'Bool',
  stickers: 'Array(Tuple(name String, slot Int32, wear Float64))',
  has_charms: 'Bool',
  charms: 'Array(Tuple(name String, pattern_id Int32))',
  inspect_in_game: 'Nullable(String)',
  screenshot_front: 'Nullable(String)',
  screenshot_back: 'Nullable(String)',
  observed_at: "DateTime64(3, 'UTC')",
  version: 'UInt64',
}

export const sales: Table = {
  name: 'sales',
  writer: 'sales',
  columns,
  engine: 'ReplacingMergeTree(version)',
  orderBy: '(item_id, sold_at, provider, sale_id)',
  partitionBy: 'toYYYYMM(sold_at)',
}

export const salesByTime: Table = {
  ...sales,
  name: 'sales_by_time',
  orderBy: '(sold_at, item_id, provider, sale_id)',
}

/** The members of a row that answer a request; the times selected by toUnixTimestamp64Milli. */
export interface SaleRow {
  item_id: number
  sold_at: Instant
  provider: string
  sale_id: string
  price: number
  currency: string
  price_micro_usd: number
  usd_rate: string
  float: number | null
  paint_seed: number | null
  /** False: the provider does not report stickers, which is not the same as none. */
  has_stickers: boolean
  stickers: SaleSticker[]
  has_charms: boolean
  charms: SaleCharm[]
  inspect_in_game: string | null
  screenshot_front: string | null
  screenshot_back: string | null
  observed_at: Instant
}
