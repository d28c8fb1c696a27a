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
const [HOUR_S, DAY_S] = [CANDLE_INTERVALS['1h'].ms / 1000, CANDLE_INTERVALS['1d'].ms / 1000]
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
  granularity: 1_024,
  // A read opens the columns of every partition that it touches: a month of hours in weeks took 20 ms, in months 16.
  partitionBy: `(interval_s, multiIf(interval_s >= ${DAY_S}, toStartOfYear(bucket), interval_s >= ${HOUR_S}, toStartOfMonth(bucket), toMonday(bucket)))`,
  expires: `bucket + toIntervalDay(multiIf(${retentionDays}, 365))`,
}

/** Parameters of {@link selectCandleParts}; times in seconds. */
export interface CandlePartsParams extends Record<string, unknown> {
  interval_s: number
  item_id: number
  start_s: number
  end_s: number
}

/** The edges' members as columns: `opening_micro`. */
const EDGE_COLUMNS = [
  { edge: 'opening', nearest: 'argMin' },
  { edge: 'closing', nearest: 'argMax' },
].flatMap(({ edge, nearest }) =>
  ['standing', 'micro', 'quantity', 'at'].map(member => ({
    name: `${edge}_${member}`,
    merged: `${nearest}(${edge}.${member}, ${edge}.version)`,
  })),
)
const NUMBERS = ['bucket_s', 'low_micro', 'high_micro', 'fallen', ...EDGE_COLUMNS.map(({ name }) => name)]

/** What {@link selectCandleParts} answers, a row per provider: a column of each member of its parts. */
export interface CandlePartColumns {
  provider: string
  bucket_s: Float64Array
  low_micro: Float64Array
  high_micro: Float64Array
  fallen: Float64Array
  opening_standing: Float64Array
  opening_micro: Float64Array
  opening_quantity: Float64Array
  opening_at: Float64Array
  closing_standing: Float64Array
  closing_micro: Float64Array
  closing_quantity: Float64Array
  closing_at: Float64Array
}

/** The columns in the order of {@link PART_COLUMNS}. */
export const PART_SHAPE = {
  provider: 'text',
  ...(Object.fromEntries(NUMBERS.map(name => [name, 'numbers'])) as Record<
    Exclude<keyof CandlePartColumns, 'provider'>,
    'numbers'
  >),
} as const

/** The parts of a query that is grouped by provider as {@link CandlePartColumns}. */
export const PART_COLUMNS = ['toString(provider)', ...NUMBERS.map(name => `groupArray(toFloat64(${name}))`)].join(', ')

/** The parts that rows of the table make together; to be grouped by bucket and provider. */
export const MERGED_PARTS = [
  ...['toUnixTimestamp(bucket) AS bucket_s', 'provider', 'min(low) AS low_micro', 'max(high) AS high_micro'],
  'arraySum(mapValues(maxMap(falls))) AS fallen',
  ...EDGE_COLUMNS.map(({ name, merged }) => `${merged} AS ${name}`),
].join(', ')

/**
 * Reads all that composeCandles needs of an item's parts: those of the window, and of each provider the last one before
 * and the first one after. Parameters: {@link CandlePartsParams}.
 *
 * One pass: a query for each of the three, joined, took twice as long (26.5 million parts: p99 80 ms, now 38 ms),
 * since opening the columns of every part of the table costs more than the rows. Edges are chosen by their version, a
 * number: comparing whole tuples took 53 ms for a year of 41 providers, this 32. FINAL took 27 there, but twice as
 * long as this where a table has very many rows.
 */
export function selectCandleParts(database: string): string {
  const zone = 'multiIf(bucket < toDateTime({start_s:UInt32}), 0, bucket < toDateTime({end_s:UInt32}), 1, 2)'
  return `SELECT ${PART_COLUMNS} FROM (SELECT * FROM (
  SELECT ${MERGED_PARTS}, ${zone} AS zone FROM ${database}.candle_parts
  WHERE interval_s = {interval_s:UInt32} AND item_id = {item_id:UInt32} GROUP BY bucket, provider)
  ORDER BY if(zone = 0, -toInt64(bucket_s), toInt64(bucket_s)) LIMIT 1 BY provider, zone, if(zone = 1, bucket_s, 0))
  GROUP BY provider SETTINGS max_threads = 1`
}

/** Turns a row of {@link selectCandleParts} into parts. */
export function candlePartsOf(columns: CandlePartColumns): CandlePart[] {
  const { provider, bucket_s, low_micro, high_micro, fallen } = columns
  return Array.from(bucket_s, (start_s, each) => ({
    bucket: start_s * 1000,
    provider,
    opening: {
      standing: columns.opening_standing[each] === 1,
      micro: columns.opening_micro[each] as number,
      quantity: columns.opening_quantity[each] as number,
      at: columns.opening_at[each] as Instant,
    },
    closing: {
      standing: columns.closing_standing[each] === 1,
      micro: columns.closing_micro[each] as number,
      quantity: columns.closing_quantity[each] as number,
      at: columns.closing_at[each] as Instant,
    },
    low: low_micro[each] as number,
    high: high_micro[each] as number,
    falls: fallen[each] as number,
  }))
}
