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
const EDGE_COLUMNS = ['opening', 'closing'].flatMap(edge =>
  ['standing', 'micro', 'quantity', 'at'].map(member => ({
    name: `${edge}_${member}`,
    expression: `tupleElement(${edge}, '${member}')`,
  })),
)
const NUMBERS = [...['bucket_s', 'low', 'high', 'falls'].map(name => ({ name, expression: name })), ...EDGE_COLUMNS]

/** What {@link selectCandleParts} answers, a row per provider: a column of each member of its parts. */
export interface CandlePartColumns {
  provider: string
  bucket_s: Float64Array
  low: Float64Array
  high: Float64Array
  falls: Float64Array
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
  ...(Object.fromEntries(NUMBERS.map(({ name }) => [name, 'numbers'])) as Record<
    Exclude<keyof CandlePartColumns, 'provider'>,
    'numbers'
  >),
} as const

/** The parts of a query that is grouped by provider as {@link CandlePartColumns}. */
export const PART_COLUMNS = [
  'toString(provider)',
  ...NUMBERS.map(({ name, expression }) => `groupArray(toFloat64(${expression})) AS ${name}`),
].join(', ')

/** The members of parts, to be read of the table FINAL and with {@link PART_SETTINGS}. */
export const PART_MEMBERS = `toUnixTimestamp(bucket) AS bucket_s, provider, opening, closing, low, high,
  arraySum(mapValues(falls)) AS falls`

/**
 * How parts are read. No key has rows in two partitions, and FINAL merges whole columns: one that is read by its parts
 * (`falls.values` for `mapValues(falls)`) would stay as it is stored.
 */
export const PART_SETTINGS =
  'SETTINGS max_threads = 1, do_not_merge_across_partitions_select_final = 1, optimize_functions_to_subcolumns = 0'

/**
 * Reads all that composeCandles needs of an item's parts: those of the window, and of each provider the last one before
 * and the first one after. Parameters: {@link CandlePartsParams}.
 *
 * One pass: a query for each of the three, joined, took twice as long (26.5 million parts: p99 80 ms, now 38 ms),
 * since opening the columns of every part of the table costs more than the rows. Merged by the table's own FINAL: a GROUP
 * BY that compares tuples value by value took 53 ms for a year of 41 providers, this 27.
 */
export function selectCandleParts(database: string): string {
  const zone = 'multiIf(bucket < toDateTime({start_s:UInt32}), 0, bucket < toDateTime({end_s:UInt32}), 1, 2)'
  return `SELECT ${PART_COLUMNS} FROM (SELECT * FROM (
  SELECT ${PART_MEMBERS}, ${zone} AS zone FROM ${database}.candle_parts FINAL
  WHERE interval_s = {interval_s:UInt32} AND item_id = {item_id:UInt32})
  ORDER BY if(zone = 0, -toInt64(bucket_s), toInt64(bucket_s)) LIMIT 1 BY provider, zone, if(zone = 1, bucket_s, 0)) GROUP BY provider ${PART_SETTINGS}`
}

/** Turns a row of {@link selectCandleParts} into parts. */
export function candlePartsOf(columns: CandlePartColumns): CandlePart[] {
  const { provider, bucket_s, low, high, falls } = columns
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
    low: low[each] as number,
    high: high[each] as number,
    falls: falls[each] as number,
  }))
}
