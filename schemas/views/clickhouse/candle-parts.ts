/**
 * candle_parts: what each provider's asks for an item did in each bucket. Writer: streams/candles.
 *
 * A row is what some of the changes of a bucket say; rows of one key merge into what all of them say.
 * Merging is associative, commutative and idempotent - edges by log offset, extremes, and the falls
 * keyed by the offset of their change - so neither a replay nor a second writer can change the result,
 * and the writer needs no state. Retention by bucket width: schemas/views/candle.ts.
 */
import type { Instant } from '../../values/instant.ts'
import { CANDLE_INTERVALS, type CandlePart } from '../candle.ts'
import type { Table } from './table.ts'

const EDGE = 'Tuple(version UInt64, standing Bool, micro Int64, quantity Int32, at Int64)'
const DAY_S = CANDLE_INTERVALS['1d'].ms / 1000
const retentionDays = Object.values(CANDLE_INTERVALS)
  .map(({ ms, retentionDays }) => `interval_s = ${ms / 1000}, ${retentionDays}`)
  .join(', ')

/** The table's definition. */
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
  partitionBy: `(interval_s, if(interval_s = ${DAY_S}, toStartOfMonth(bucket), toMonday(bucket)))`,
  expires: `bucket + toIntervalDay(multiIf(${retentionDays}, 365))`,
}

/** Parameters of {@link selectCandleParts}; times in seconds. */
export interface CandlePartsParams extends Record<string, unknown> {
  interval_s: number
  item_id: number
  start_s: number
  end_s: number
}

/** A row that {@link selectCandleParts} answers. */
export interface CandlePartRow {
  bucket_s: number
  provider: string
  opening: EdgeRow
  closing: EdgeRow
  low: number
  high: number
  falls: number
}

interface EdgeRow {
  version: number
  standing: boolean
  micro: number
  quantity: number
  at: Instant
}

/** Reads all that composeCandles needs of an item's parts; parameters: {@link CandlePartsParams}. */
export function selectCandleParts(database: string): string {
  const start = 'toDateTime({start_s:UInt32})'
  const end = 'toDateTime({end_s:UInt32})'
  const parts = (condition: string) => `SELECT toUnixTimestamp(bucket) AS bucket_s, provider,
  min(opening) AS opening, max(closing) AS closing, min(low) AS low, max(high) AS high,
  arraySum(mapValues(maxMap(falls))) AS falls
  FROM ${database}.candle_parts
  WHERE interval_s = {interval_s:UInt32} AND item_id = {item_id:UInt32} AND ${condition} GROUP BY bucket, provider`
  return [
    parts(`bucket >= ${start} AND bucket < ${end}`),
    `SELECT * FROM (${parts(`bucket < ${start}`)} ORDER BY bucket_s DESC LIMIT 1 BY provider)`,
    `SELECT * FROM (${parts(`bucket >= ${end}`)} ORDER BY bucket_s LIMIT 1 BY provider)`,
  ].join('\nUNION ALL\n')
}

/** Turns a row of {@link selectCandleParts} into a part. */
export function candlePartOf(row: CandlePartRow): CandlePart {
  const { bucket_s, ...part } = row
  return { ...part, bucket: bucket_s * 1000 }
}
