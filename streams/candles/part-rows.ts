/**
 * Reads rows of candle_parts as they are stored, and merges them as the table would.
 *
 * Merging is associative, commutative and idempotent - edges by log offset, extremes, and the falls keyed by the offset of
 * their change - so rows that ClickHouse has merged already and rows that it has not come to the same parts.
 */
import { type CandlePart, type EdgeAsk, type PartTable, tableOfColumns } from './part-table.ts'

/** Parameters of the queries of parts; times in seconds, the window half-open. */
export interface CandlePartsParams extends Record<string, unknown> {
  interval_s: number
  item_id: number
  start_s: number
  end_s: number
  /** Parts before it are out of retention, whether they are gone yet or not. */
  oldest_s: number
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
  falls: 'map',
} as const

type EdgeColumns = Readonly<Record<keyof typeof EDGE_SHAPE, Float64Array>>

/** Falls of all rows one behind the other, and where each row's end. */
type EachFall = Readonly<Record<'ends' | 'keys' | 'values', Float64Array>>

interface CandlePartColumns extends Readonly<Record<'bucket' | 'low' | 'high', Float64Array>> {
  readonly provider: readonly string[]
  readonly opening: EdgeColumns
  readonly closing: EdgeColumns
  readonly falls: EachFall
}

const OF_ITEM = 'interval_s = {interval_s:UInt32} AND item_id = {item_id:UInt32}'
/** Half-open; the ends are names of parameters. */
const within = (from: string, to: string): string =>
  `bucket >= toDateTime({${from}:UInt32}) AND bucket < toDateTime({${to}:UInt32})`

/**
 * Reads an item's rows of a window as they are stored; {@link mergeRows} makes parts of them. Parameters:
 * {@link CandlePartsParams}.
 *
 * Most keys have one row, since ClickHouse merges what it stores, so having it merge at each read is work for nothing: a
 * year of 41 providers took 28 ms by GROUP BY, and takes 13 as it is, 3 of them for the falls one by one. Edges are read whole:
 * members one by one took 23 ms instead of 18, and 3 ms go when the server need not find out what to read first (PREWHERE).
 */
export const selectCandleParts = (database: string): string =>
  `SELECT provider, bucket, opening, closing, low, high, falls
  FROM ${database}.candle_parts PREWHERE ${OF_ITEM} AND ${within('start_s', 'end_s')} SETTINGS max_threads = 1`

/** The ask at an edge next to a window: where a provider's last part before it ends, or its first one after it begins. */
export interface PartAround extends EdgeAsk {
  provider: string
  bucket_s: number
}

/** Where parts next to a window may be: before it, after it. */
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

export function partAround({ provider, bucket_s, standing, micro, quantity, at }: PartAround): CandlePart {
  const edge = { standing, micro, quantity, at }
  return { bucket: bucket_s * 1000, provider, opening: edge, closing: edge, low: micro, high: micro, falls: 0 }
}

/** Makes parts of stored rows, whose columns it uses up: those of one key merge as the table's own columns do. */
export function mergeRows(columns: CandlePartColumns, interval_s: number): PartTable {
  const { provider, bucket, low, high, opening, closing } = columns
  const falls = sumsOfFalls(columns.falls)
  const merged = new Uint8Array(bucket.length)
  const several = rowsOfKeys(columns, interval_s)
  for (const [first, rows] of several) {
    for (const row of rows.slice(1)) {
      merged[row] = 1
      low[first] = Math.min(low[first] as number, low[row] as number)
      high[first] = Math.max(high[first] as number, high[row] as number)
      if ((opening.version[row] as number) < (opening.version[first] as number)) replaceEdge(opening, first, row)
      if ((closing.version[row] as number) > (closing.version[first] as number)) replaceEdge(closing, first, row)
    }
    falls[first] = sumOfDistinctFalls(columns.falls, rows)
  }
  const parts = { provider, bucket: bucket.map(start_s => start_s * 1000), opening, closing, low, high, falls }
  return several.size === 0 ? parts : withoutRows(parts, merged)
}

/** The rows of each key that has several, by the first of them. Keys are dense: a table of them is filled in a tenth of a Map's time. */
function rowsOfKeys({ provider, bucket }: CandlePartColumns, interval_s: number): Map<number, number[]> {
  const numberOf = new Map<string, number>()
  let [oldest, newest] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  for (let row = 0; row < bucket.length; row++) {
    const [name, start_s] = [provider[row] as string, bucket[row] as number]
    if (!numberOf.has(name)) numberOf.set(name, numberOf.size)
    oldest = Math.min(oldest, start_s)
    newest = Math.max(newest, start_s)
  }
  const several = new Map<number, number[]>()
  if (bucket.length === 0) return several
  const providers = numberOf.size
  const firstOf = new Int32Array(((newest - oldest) / interval_s + 1) * providers).fill(-1)
  for (let row = 0; row < bucket.length; row++) {
    const number = numberOf.get(provider[row] as string) as number
    const key = (((bucket[row] as number) - oldest) / interval_s) * providers + number
    const first = firstOf[key] as number
    if (first < 0) firstOf[key] = row
    else several.set(first, [...(several.get(first) ?? [first]), row])
  }
  return several
}

function replaceEdge(edge: EdgeColumns, row: number, by: number): void {
  for (const column of Object.values(edge)) column[row] = column[by] as number
}

/** Leaves out the rows that are marked. Loops: `from` took a tenth of a second for 80,000 rows. */
function withoutRows(parts: PartTable, marked: Uint8Array): PartTable {
  const kept = marked.reduce((count, mark) => count + 1 - mark, 0)
  const column = (from: Float64Array): Float64Array => {
    const into = new Float64Array(kept)
    for (let row = 0, at = 0; row < marked.length; row++) if (marked[row] === 0) into[at++] = from[row] as number
    return into
  }
  const provider = parts.provider.filter((_, row) => marked[row] === 0)
  return tableOfColumns(provider, of => column(of(parts)))
}

function sumsOfFalls({ ends, values }: EachFall): Float64Array {
  const sums = new Float64Array(ends.length)
  let at = 0
  for (let row = 0; row < ends.length; row++) {
    let sum = 0
    for (; at < (ends[row] as number); at++) sum += values[at] as number
    sums[row] = sum
  }
  return sums
}

/** The sum of the falls of several rows, each fall once, as the table's own maxMap has it. */
function sumOfDistinctFalls({ ends, keys, values }: EachFall, rows: readonly number[]): number {
  const fallen = new Map<number, number>()
  for (const row of rows) {
    for (let at = ends[row - 1] ?? 0; at < (ends[row] as number); at++) {
      const key = keys[at] as number
      fallen.set(key, Math.max(fallen.get(key) ?? 0, values[at] as number))
    }
  }
  return fallen.values().reduce((sum, units) => sum + units, 0)
}
