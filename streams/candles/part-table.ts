import type { PausingWork } from '#infra/runtime/turns.ts'
import type { Instant } from '#schemas/values/instant.ts'
import type { MicroUsd } from '#schemas/values/money.ts'

/** A provider's ask at an edge of a bucket. */
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

/** Edges of parts, row by row. */
export type EdgeTable = Readonly<Record<'standing' | 'micro' | 'quantity' | 'at', Float64Array>>

/**
 * Parts row by row, at most one of a provider and bucket; members as in {@link CandlePart}, `standing` is 1 or 0.
 *
 * A year of 41 providers has 15,000 parts. As objects they were put straight into the old heap, 5 MB a read, and
 * collecting that held up one read in forty by 60 ms.
 */
export interface PartTable extends Readonly<Record<'bucket' | 'low' | 'high' | 'falls', Float64Array>> {
  readonly provider: readonly string[]
  readonly opening: EdgeTable
  readonly closing: EdgeTable
}

export function partTable(parts: readonly CandlePart[]): PartTable {
  return {
    provider: parts.map(({ provider }) => provider),
    bucket: Float64Array.from(parts, ({ bucket }) => bucket),
    opening: edgeTable(parts.map(({ opening }) => opening)),
    closing: edgeTable(parts.map(({ closing }) => closing)),
    low: Float64Array.from(parts, ({ low }) => low),
    high: Float64Array.from(parts, ({ high }) => high),
    falls: Float64Array.from(parts, ({ falls }) => falls),
  }
}

export const edgeTable = (asks: readonly EdgeAsk[]): EdgeTable => ({
  standing: Float64Array.from(asks, ({ standing }) => Number(standing)),
  micro: Float64Array.from(asks, ({ micro }) => micro),
  quantity: Float64Array.from(asks, ({ quantity }) => quantity),
  at: Float64Array.from(asks, ({ at }) => at),
})

/** A table whose columns of numbers are made of those of another, or of several; `of` picks a table's column. */
export function tableOfColumns(
  provider: readonly string[],
  column: (of: (table: PartTable) => Float64Array) => Float64Array,
): PartTable {
  const edge = (side: 'opening' | 'closing'): EdgeTable => ({
    standing: column(table => table[side].standing),
    micro: column(table => table[side].micro),
    quantity: column(table => table[side].quantity),
    at: column(table => table[side].at),
  })
  return {
    provider,
    bucket: column(({ bucket }) => bucket),
    opening: edge('opening'),
    closing: edge('closing'),
    low: column(({ low }) => low),
    high: column(({ high }) => high),
    falls: column(({ falls }) => falls),
  }
}

/** One table of several, whose parts are of different providers or buckets; pauses after each. */
export function* joinTables(tables: readonly PartTable[]): PausingWork<PartTable> {
  if (tables.length === 1) return tables[0] as PartTable
  const rows = tables.reduce((sum, { bucket }) => sum + bucket.length, 0)
  const provider = ([] as string[]).concat(...tables.map(table => table.provider))
  const joined = tableOfColumns(provider, () => new Float64Array(rows))
  const into = columnsOf(joined)
  let at = 0
  for (const table of tables) {
    for (const [which, column] of columnsOf(table).entries()) into[which]?.set(column, at)
    at += table.bucket.length
    yield
  }
  return joined
}

const columnsOf = ({ bucket, low, high, falls, opening, closing }: PartTable): Float64Array[] => [
  ...[bucket, low, high, falls],
  ...[opening, closing].flatMap(({ standing, micro, quantity, at }) => [standing, micro, quantity, at]),
]
