/**
 * The movers in Redis: of each window the items whose best ask moved, most first, under a head that names the version to read.
 *
 * Rows are numbers of eight bytes, five each: a week in which 40,000 items moved is 1.6 MB, and is read in some milliseconds.
 * Numbers are little-endian, as every machine that this runs on has them. A replaced version stays for a time, so that a reader
 * of its head finds what it names. All keys share one hash tag. Sole writer: sink.ts.
 */
import type { Instant } from '#schemas/values/instant.ts'
import type { MicroUsd } from '#schemas/values/money.ts'

/** The windows, with the width of the buckets on whose edges they begin. */
export const MOVERS_WINDOWS = {
  '1h': { ms: 3_600_000, bucketMs: 300_000 },
  '24h': { ms: 86_400_000, bucketMs: 300_000 },
  '7d': { ms: 604_800_000, bucketMs: 3_600_000 },
} as const

/** The name of a window. */
export type MoversWindow = keyof typeof MOVERS_WINDOWS

/** The names of all windows. */
export const WINDOW_NAMES = Object.keys(MOVERS_WINDOWS) as MoversWindow[]

/** What rows of a window are of. */
export interface WindowHead {
  /** Its start, and the end of what was summed when its past was read. */
  since: Instant
  settled: Instant
  /** By partition of market.book-changes, an offset: what came from there on and is of before `settled` is not reflected. */
  next: number[]
  rows: number
}

/** The head: what a version was computed of. */
export interface MoversHead {
  version: string
  /** The moment at which health was judged and from which windows go back. */
  as_of: Instant
  /** Providers that were down: their asks are no best asks. */
  down: string[]
  /** By partition of market.book-changes, the next offset after what the best asks reflect. */
  next: number[]
  windows: Record<MoversWindow, WindowHead>
}

/** An item whose best ask moved. */
export interface Mover {
  itemId: number
  ask: MicroUsd
  /** The composite ask at the window's start. */
  before: MicroUsd
  /** Providers that are up and list it. */
  providers: number
  /** Units consumed in the window. */
  units: number
}

/** Key of the JSON text of {@link MoversHead}. */
export const moversHeadKey = (prefix = ''): string => `${prefix}{movers}:head`

/** Key of a window's rows. */
export const moversRowsKey = (version: string, window: MoversWindow, prefix = ''): string =>
  `${prefix}{movers}:${version}:${window}`

/** Key of the lease of the one process that writes. */
export const moversLeaseKey = (prefix = ''): string => `${prefix}{movers}:writer`

const ROW_NUMBERS = 5

/** Writes rows as bytes. */
export const encodeMovers = (movers: readonly Mover[]): Buffer =>
  Buffer.from(
    Float64Array.from(
      movers.flatMap(({ itemId, ask, before, providers, units }) => [itemId, ask, before, providers, units]),
    ).buffer,
  )

/** The rows of some bytes; throws when they are not as many as their head says. */
export function decodeMovers(bytes: Buffer, { rows }: Pick<WindowHead, 'rows'>): Mover[] {
  if (bytes.length !== rows * ROW_NUMBERS * 8) throw new Error('rows of movers are not as many as their head says')
  const number = (row: number, column: number): number => bytes.readDoubleLE((row * ROW_NUMBERS + column) * 8)
  return Array.from({ length: rows }, (_, row) => ({
    itemId: number(row, 0),
    ask: number(row, 1),
    before: number(row, 2),
    providers: number(row, 3),
    units: number(row, 4),
  }))
}
