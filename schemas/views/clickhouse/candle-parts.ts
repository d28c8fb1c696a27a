/**
 * candle_parts: what each provider's asks for an item did in each bucket. Writer: streams/candles.
 *
 * A row is what some of the changes of a bucket say; rows of one key merge into what all of them say.
 * Merging is associative, commutative and idempotent - edges by log offset, extremes, and the falls
 * keyed by the offset of their change - so neither a replay nor a second writer can change the result,
 * and the writer needs no state. Retention by bucket width: schemas/views/candle.ts.
 */
import type { Instant } from '../../values/instant.ts'
import { CANDLE_INTERVALS, type CandlePart, type EdgeAsk } from '../candle.ts'
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
  // A month of hours of 22 million rows: 12 ms instead of 21 with a file per column, for a tenth more bytes.
  isCompact: true,
  // A read opens the columns of every partition that it touches: a month of hours in weeks took 20 ms, in months 16.
  partitionBy: `(interval_s, multiIf(interval_s >= ${DAY_S}, toStartOfYear(bucket), interval_s >= ${HOUR_S}, toStartOfMonth(bucket), toMonday(bucket)))`,
  expires: `bucket + toIntervalDay(multiIf(${retentionDays}, 365))`,
}

/** Parameters of the queries of parts; times in seconds, the window half-open. */
export interface CandlePartsParams extends Record<string, unknown> {
  interval_s: number
  item_id: number
  start_s: number
  end_s: number
  /** Parts before it are out of retention, whether they are gone yet or not. */
  oldest_s: number
  /** From here on rows are new and seldom merged yet. */
  fresh_s: number
}

const EDGE_SHAPE = { version: 'number', standing: 'number', micro: 'number', quantity: 'number', at: 'number' } as const

/** The columns that {@link selectCandleParts} answers. */
export const PART_SHAPE = {
  provider: 'text',
  /** In seconds. */
  bucket: 'number',
  opening: EDGE_SHAPE,
  closing: EDGE_SHAPE,
  low: 'number',
  high: 'number',
  /** By the version of their change, or, of a row before `fresh_s`, their sum alone. */
  fallen: 'map',
} as const

type EdgeColumns = Readonly<Record<keyof typeof EDGE_SHAPE, Float64Array>>

/** Rows of the table as columns; `fallen` has the entries of all rows one behind the other, and where each row's end. */
export interface CandlePartColumns extends Readonly<Record<'bucket' | 'low' | 'high', Float64Array>> {
  readonly provider: readonly string[]
  readonly opening: EdgeColumns
  readonly closing: EdgeColumns
  readonly fallen: Readonly<Record<'ends' | 'keys' | 'values', Float64Array>>
}

const OF_ITEM = 'interval_s = {interval_s:UInt32} AND item_id = {item_id:UInt32}'
/** Half-open; the ends are names of parameters. */
const within = (from: string, to: string): string =>
  `bucket >= toDateTime({${from}:UInt32}) AND bucket < toDateTime({${to}:UInt32})`

/**
 * Reads an item's rows of a window as they are stored; {@link mergeParts} makes parts of them. Parameters:
 * {@link CandlePartsParams}.
 *
 * Most keys have one row, since ClickHouse merges what it stores, so having it merge at each read is work for nothing: a
 * year of 41 providers took 28 ms by GROUP BY, and takes 12 as it is. Only of new rows, several of which may tell of the same
 * falls, is each fall read; merging those by a second query beside took a month from 22 to 32 ms, most of it the planning.
 * Edges are read whole: members one by one took 23 ms instead of 18, and 3 ms go when the server need not find out what to
 * read first (PREWHERE).
 */
export function selectCandleParts(database: string): string {
  const fallen = 'if(bucket < toDateTime({fresh_s:UInt32}), map(toUInt64(0), arraySum(falls.values)), falls)'
  return `SELECT provider, bucket, opening, closing, low, high, ${fallen} AS fallen
  FROM ${database}.candle_parts PREWHERE ${OF_ITEM} AND ${within('start_s', 'end_s')} SETTINGS max_threads = 1`
}

/** The ask at an edge next to a window: where a provider's last part before it ends, or its first one after it begins. */
export interface PartAround extends EdgeAsk {
  provider: string
  bucket_s: number
}

/** Where parts may stand next to a window: before it, after it. */
export type PartsBeside = 'before' | 'after'

/**
 * Reads of each provider where the last part before the window ends, or the first one after it begins, as
 * {@link PartAround}. Parameters: {@link CandlePartsParams}.
 */
export function selectPartsBeside(database: string, side: PartsBeside): string {
  const [edge, nearest, bucket, where] =
    side === 'before'
      ? ['closing', 'argMax', 'max', within('oldest_s', 'start_s')]
      : ['opening', 'argMin', 'min', 'bucket >= toDateTime({end_s:UInt32})']
  // By bucket, then version: closes of history files have lower versions than what the book saw before them.
  const order = `bitOr(bitShiftLeft(toUInt128(toUnixTimestamp(bucket)), 64), toUInt128(${edge}.version))`
  const members = (['standing', 'micro', 'quantity', 'at'] as const).map(
    member => `${nearest}(${edge}.${member}, ${order}) AS ${member}`,
  )
  return `SELECT provider, toUnixTimestamp(${bucket}(bucket)) AS bucket_s, ${members.join(', ')}
  FROM ${database}.candle_parts WHERE ${OF_ITEM} AND ${where} GROUP BY provider SETTINGS max_threads = 1`
}

/** Turns an edge next to a window into a part. */
export function partAround({ provider, bucket_s, standing, micro, quantity, at }: PartAround): CandlePart {
  const edge = { standing, micro, quantity, at }
  return { bucket: bucket_s * 1000, provider, opening: edge, closing: edge, low: micro, high: micro, falls: 0 }
}

/**
 * Reads the falls of whole parts as {@link PartFalls}. Parameters: those of {@link CandlePartsParams}, and the starts of
 * the buckets (`buckets`, in seconds), which lie in the window.
 */
export function selectPartFalls(database: string): string {
  return `SELECT provider, toUnixTimestamp(bucket) AS bucket_s, arraySum(mapValues(maxMap(falls))) AS fallen
  FROM ${database}.candle_parts
  WHERE ${OF_ITEM} AND ${within('start_s', 'end_s')} AND toUnixTimestamp(bucket) IN {buckets:Array(UInt32)} GROUP BY provider, bucket`
}

/** A row that {@link selectPartFalls} answers. */
export interface PartFalls {
  provider: string
  bucket_s: number
  fallen: number
}

/** Parts, and those among them whose falls are not known yet. */
export interface MergedParts {
  parts: CandlePart[]
  /** Made of several rows of which only the sums are known, of falls that may be the same: {@link selectPartFalls} tells them. */
  doubled: CandlePart[]
}

/** The number of a provider within a key of {@link mergeParts} stays below it. */
const PROVIDERS_MOST = 2 ** 16

/** A part, the rows that make it up, and those that its edges are of. */
interface PartRows {
  part: CandlePart
  rows: number[]
  openingRow: number
  closingRow: number
}

/**
 * Makes parts of stored rows: those of one key merge as the table's own columns do.
 *
 * Rows of one stored part come in the order of their buckets, so a provider's bucket that is not above the one before it
 * is the first sign of a second row; until then no key is looked up.
 */
export function mergeParts(columns: CandlePartColumns, { fresh_s }: Pick<CandlePartsParams, 'fresh_s'>): MergedParts {
  const { provider, bucket, low, high, opening, closing } = columns
  const numberOf = new Map<string, number>()
  const newest: number[] = []
  const parts: CandlePart[] = []
  const ofSeveral = new Set<PartRows>()
  let byKey: Map<number, PartRows> | undefined
  const keyOf = (row: number): number =>
    (bucket[row] as number) * PROVIDERS_MOST + (numberOf.get(provider[row] as string) as number)
  const alone = (part: CandlePart, row: number): PartRows => ({ part, rows: [row], openingRow: row, closingRow: row })
  for (let row = 0; row < bucket.length; row++) {
    const [name, start_s] = [provider[row] as string, bucket[row] as number]
    let number = numberOf.get(name)
    if (number === undefined) {
      number = numberOf.size
      numberOf.set(name, number)
    }
    if (!byKey && start_s <= (newest[number] ?? Number.NEGATIVE_INFINITY)) {
      byKey = new Map(parts.map((part, at) => [keyOf(at), alone(part, at)]))
    }
    newest[number] = start_s
    const known = byKey?.get(keyOf(row))
    if (known === undefined) {
      const part = partAt(columns, row)
      byKey?.set(keyOf(row), alone(part, row))
      parts.push(part)
      continue
    }
    const { part } = known
    known.rows.push(row)
    ofSeveral.add(known)
    part.low = Math.min(part.low, low[row] as number)
    part.high = Math.max(part.high, high[row] as number)
    if ((opening.version[row] as number) < (opening.version[known.openingRow] as number)) {
      part.opening = edgeAt(opening, row)
      known.openingRow = row
    }
    if ((closing.version[row] as number) > (closing.version[known.closingRow] as number)) {
      part.closing = edgeAt(closing, row)
      known.closingRow = row
    }
  }
  const doubled: CandlePart[] = []
  for (const { part, rows } of ofSeveral) {
    if (part.bucket < fresh_s * 1000) doubled.push(part)
    else part.falls = sumOfDistinctFalls(columns.fallen, rows)
  }
  return { parts, doubled }
}

function partAt({ provider, bucket, opening, closing, low, high, fallen }: CandlePartColumns, row: number): CandlePart {
  return {
    bucket: (bucket[row] as number) * 1000,
    provider: provider[row] as string,
    opening: edgeAt(opening, row),
    closing: edgeAt(closing, row),
    low: low[row] as number,
    high: high[row] as number,
    falls: sumOfFalls(fallen, row),
  }
}

function edgeAt({ standing, micro, quantity, at }: EdgeColumns, row: number): EdgeAsk {
  return {
    standing: standing[row] === 1,
    micro: micro[row] as number,
    quantity: quantity[row] as number,
    at: at[row] as Instant,
  }
}

function sumOfFalls({ ends, values }: CandlePartColumns['fallen'], row: number): number {
  let sum = 0
  for (let at = ends[row - 1] ?? 0; at < (ends[row] as number); at++) sum += values[at] as number
  return sum
}

/** The sum of the falls of several rows, each fall once, as the table's own maxMap has it. */
function sumOfDistinctFalls({ ends, keys, values }: CandlePartColumns['fallen'], rows: readonly number[]): number {
  const fallen = new Map<number, number>()
  for (const row of rows) {
    for (let at = ends[row - 1] ?? 0; at < (ends[row] as number); at++) {
      const key = keys[at] as number
      fallen.set(key, Math.max(fallen.get(key) ?? 0, values[at] as number))
    }
  }
  return fallen.values().reduce((sum, units) => sum + units, 0)
}
