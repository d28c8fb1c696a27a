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
  /** From here on rows are new and seldom merged yet; within the window, or at its end. */
  fresh_s: number
}

const MEMBERS = ['version', 'standing', 'micro', 'quantity', 'at'] as const

/** The columns that {@link selectCandleParts} answers. */
export const PART_SHAPE = {
  provider: 'text',
  bucket_s: 'number',
  low_micro: 'number',
  high_micro: 'number',
  fallen: 'number',
  opening_version: 'number',
  opening_standing: 'number',
  opening_micro: 'number',
  opening_quantity: 'number',
  opening_at: 'number',
  closing_version: 'number',
  closing_standing: 'number',
  closing_micro: 'number',
  closing_quantity: 'number',
  closing_at: 'number',
} as const

/** Rows of the table as columns. */
export interface CandlePartColumns
  extends Readonly<Record<Exclude<keyof typeof PART_SHAPE, 'provider'>, Float64Array>> {
  readonly provider: readonly string[]
}

const OF_ITEM = 'interval_s = {interval_s:UInt32} AND item_id = {item_id:UInt32}'
/** Half-open; the ends are names of parameters. */
const within = (from: string, to: string): string =>
  `bucket >= toDateTime({${from}:UInt32}) AND bucket < toDateTime({${to}:UInt32})`

/**
 * Reads an item's rows of a window before `fresh_s` as they are stored, or of the rest what those of one key come to;
 * {@link mergeParts} makes parts of either. Parameters: {@link CandlePartsParams}.
 *
 * Most keys have one row, since ClickHouse merges what it stores, so having it merge at each read is work for nothing: a
 * year of 41 providers took 28 ms by GROUP BY, and takes 12 as it is. New rows are the exception, and few.
 */
export function selectCandleParts(database: string, rows: 'stored' | 'fresh'): string {
  const isStored = rows === 'stored'
  const column = (name: string, value: string): string => `toFloat64(${value}) AS ${name}`
  const edge = (of: 'opening' | 'closing', ends: 'min' | 'max'): string[] =>
    MEMBERS.map(member => {
      const merged =
        member === 'version'
          ? `${ends}(${of}.version)`
          : `arg${ends === 'min' ? 'Min' : 'Max'}(${of}.${member}, ${of}.version)`
      return column(`${of}_${member}`, isStored ? `${of}.${member}` : merged)
    })
  const columns = [
    column('bucket_s', 'toUnixTimestamp(bucket)'),
    column('low_micro', isStored ? 'low' : 'min(low)'),
    column('high_micro', isStored ? 'high' : 'max(high)'),
    column('fallen', `arraySum(mapValues(${isStored ? 'falls' : 'maxMap(falls)'}))`),
    ...[...edge('opening', 'min'), ...edge('closing', 'max')],
  ]
  const rowsWithin = isStored ? within('start_s', 'fresh_s') : within('fresh_s', 'end_s')
  return `SELECT provider, ${columns.join(', ')} FROM ${database}.candle_parts
  WHERE ${OF_ITEM} AND ${rowsWithin}
  ${isStored ? '' : 'GROUP BY bucket, provider '}SETTINGS max_threads = 1`
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
  const members = MEMBERS.filter(member => member !== 'version').map(
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
  /** Made of several rows, whose falls may be the same ones: {@link selectPartFalls} tells them. */
  doubled: CandlePart[]
}

/** The number of a provider within a key of {@link mergeParts} stays below it. */
const PROVIDERS_MOST = 2 ** 16

/** A part that several rows may make up, and the rows that its edges are of. */
interface PartRows {
  part: CandlePart
  openingRow: number
  closingRow: number
}

/**
 * Makes parts of stored rows: those of one key merge as the table's own columns do.
 *
 * Rows of one stored part come in the order of their buckets, so a provider's bucket that is not above the one before it
 * is the first sign of a second row; until then no key is looked up.
 */
export function mergeParts(columns: CandlePartColumns): MergedParts {
  const { provider, bucket_s, low_micro, high_micro, fallen, opening_version, closing_version } = columns
  const numberOf = new Map<string, number>()
  const newest: number[] = []
  const parts: CandlePart[] = []
  const doubled = new Set<CandlePart>()
  let byKey: Map<number, PartRows> | undefined
  const keyOf = (row: number): number =>
    (bucket_s[row] as number) * PROVIDERS_MOST + (numberOf.get(provider[row] as string) as number)
  for (let row = 0; row < bucket_s.length; row++) {
    const [name, start_s] = [provider[row] as string, bucket_s[row] as number]
    let number = numberOf.get(name)
    if (number === undefined) {
      number = numberOf.size
      numberOf.set(name, number)
    }
    if (!byKey && start_s <= (newest[number] ?? Number.NEGATIVE_INFINITY)) {
      byKey = new Map(parts.map((part, at) => [keyOf(at), { part, openingRow: at, closingRow: at }]))
    }
    newest[number] = start_s
    const [low, high] = [low_micro[row] as number, high_micro[row] as number]
    const known = byKey?.get(keyOf(row))
    if (known === undefined) {
      const [opening, closing] = [edgeAt(columns, 'opening', row), edgeAt(columns, 'closing', row)]
      const part = { bucket: start_s * 1000, provider: name, opening, closing, low, high, falls: fallen[row] as number }
      byKey?.set(keyOf(row), { part, openingRow: row, closingRow: row })
      parts.push(part)
      continue
    }
    const { part } = known
    doubled.add(part)
    part.low = Math.min(part.low, low)
    part.high = Math.max(part.high, high)
    if ((opening_version[row] as number) < (opening_version[known.openingRow] as number)) {
      part.opening = edgeAt(columns, 'opening', row)
      known.openingRow = row
    }
    if ((closing_version[row] as number) > (closing_version[known.closingRow] as number)) {
      part.closing = edgeAt(columns, 'closing', row)
      known.closingRow = row
    }
  }
  return { parts, doubled: [...doubled] }
}

function edgeAt(columns: CandlePartColumns, edge: 'opening' | 'closing', row: number): EdgeAsk {
  return {
    standing: columns[`${edge}_standing`][row] === 1,
    micro: columns[`${edge}_micro`][row] as number,
    quantity: columns[`${edge}_quantity`][row] as number,
    at: columns[`${edge}_at`][row] as Instant,
  }
}
