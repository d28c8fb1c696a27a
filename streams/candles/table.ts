/**
 * The tables candle_parts and candle_standing. Writer: fold.ts, in the role `candles`.
 *
 * Invariant: rows of one key merge by version, so neither a replay nor a second writer can change the result, and the
 * writer needs no state.
 */
import type { Table } from '#infra/clickhouse/table.ts'
import { CANDLE_INTERVALS } from '#schemas/values/candle-interval.ts'
import type { Instant } from '#schemas/values/instant.ts'
import type { MicroUsd } from '#schemas/values/money.ts'

const EDGE = 'Tuple(version UInt64, standing Bool, micro Int64, quantity Int32, at Int64)'
const [HOUR_S, DAY_S] = [CANDLE_INTERVALS['1h'].ms / 1000, CANDLE_INTERVALS['1d'].ms / 1000]
const retentionDays = Object.values(CANDLE_INTERVALS)
  .map(({ ms, retentionDays }) => `interval_s = ${ms / 1000}, ${retentionDays}`)
  .join(', ')

/**
 * Each provider's asks for an item in each bucket.
 *
 * A row is the fold of some of the changes of a bucket; rows of one key merge into the fold of all of them.
 */
export const candleParts: Table = {
  name: 'candle_parts',
  writer: 'candles',
  columns: {
    interval_s: 'UInt32',
    item_id: 'UInt32',
    bucket: "DateTime('UTC')",
    provider: 'LowCardinality(String)',
    opening: `SimpleAggregateFunction(min, ${EDGE})`,
    closing: `SimpleAggregateFunction(max, ${EDGE})`,
    low: 'SimpleAggregateFunction(min, Int64)',
    high: 'SimpleAggregateFunction(max, Int64)',
    falls: 'SimpleAggregateFunction(maxMap, Map(UInt64, UInt32))',
  },
  engine: 'AggregatingMergeTree',
  orderBy: '(interval_s, item_id, bucket, provider)',
  granularity: 1_024,
  // A month of hours of 22 million rows: 12 ms instead of 21 with a file per column, for a tenth more bytes.
  isCompact: true,
  // A read opens the columns of every partition that it touches: a month of hours in weeks took 20 ms, in months 16.
  partitionBy: `(interval_s, multiIf(interval_s >= ${DAY_S}, toStartOfYear(bucket), interval_s >= ${HOUR_S}, toStartOfMonth(bucket), toMonday(bucket)))`,
  expires: `bucket + toIntervalDay(multiIf(${retentionDays}, 365))`,
}

/**
 * Every provider's newest ask for an item, or the last one and when it was withdrawn.
 *
 * It holds what is listed in a window in which a provider changed nothing and of which all parts before are gone.
 * `version` is that of the change's record, so the newest row of a key wins in whatever order rows arrive. Kept for ever:
 * one row per item and provider.
 */
export const candleStanding: Table = {
  name: 'candle_standing',
  writer: 'candles',
  columns: {
    item_id: 'UInt32',
    provider: 'LowCardinality(String)',
    standing: 'Bool',
    micro: 'Int64',
    quantity: 'Int32',
    at: 'Int64',
    version: 'UInt64',
  },
  engine: 'ReplacingMergeTree(version)',
  orderBy: '(item_id, provider)',
  partitionBy: 'tuple()',
  granularity: 256,
  isCompact: true,
}

export interface EdgeAsk {
  /** Whether an ask was listed at that edge. */
  standing: boolean
  /** The ask; where none was listed, the nearest inside the bucket: the first one, or the last one. */
  micro: MicroUsd
  /** Listings of that ask, else 0. */
  quantity: number
  /** When the provider's first, or last, change in the bucket happened. */
  at: Instant
}

/** One provider's asks for an item in one bucket in which at least one of them changed. */
export interface CandlePart {
  /** Start of the bucket. */
  bucket: Instant
  provider: string
  opening: EdgeAsk
  closing: EdgeAsk
  /** Lowest and highest ask that was listed at any moment of the bucket, the one at its start included. */
  low: MicroUsd
  high: MicroUsd
  /** Sum of the falls of the listing count; a withdrawal is a fall to zero. */
  falls: number
}

/** Edges of parts, row by row; `standing` is 1 or 0, and `at` counts where it is 0: which ask was the last one to go, or the first to come. */
export type EdgeTable = Readonly<Record<'standing' | 'micro' | 'quantity' | 'at', ArrayLike<number>>>

/**
 * Parts row by row, at most one of a provider and bucket; members as in {@link CandlePart}.
 *
 * A year of 41 providers has 15,000 parts. As objects they were put straight into the old heap, 5 MB a read, and
 * collecting that held up one read in forty by 60 ms.
 */
export interface PartTable extends Readonly<Record<'bucket' | 'low' | 'high' | 'falls', ArrayLike<number>>> {
  readonly provider: readonly string[]
  readonly opening: EdgeTable
  readonly closing: EdgeTable
}

export interface Edge extends EdgeAsk {
  version: number
}

export interface Part extends Omit<CandlePart, 'opening' | 'closing' | 'falls'> {
  intervalMs: number
  itemId: number
  opening: Edge
  closing: Edge
  /** Offset of a change → how many listings it took away. */
  falls: ReadonlyMap<number, number>
}

export interface FoldedAsk {
  itemId: number
  provider: string
  newest: Edge
  /** One for each bucket of each width, those of the newest changes last. */
  parts: Part[]
}
