/**
 * The movers in Redis: of each window the items whose best ask moved, most first.
 *
 * Rows are numbers of eight bytes, five each: a week in which 40,000 items moved is 1.6 MB, and is read in some milliseconds.
 * Numbers are little-endian, as every machine that this runs on has them.
 */
import { DAY_MS, HOUR_MS, type Instant } from '#schemas/values/instant.ts'
import type { MicroUsd } from '#schemas/values/money.ts'

/** The windows, with the width of the buckets on whose edges they begin. */
export const MOVERS_WINDOWS = {
  '1h': { ms: HOUR_MS, bucketMs: 300_000 },
  '24h': { ms: DAY_MS, bucketMs: 300_000 },
  '7d': { ms: 7 * DAY_MS, bucketMs: HOUR_MS },
} as const

export type MoversWindow = keyof typeof MOVERS_WINDOWS

export const WINDOW_NAMES = Object.keys(MOVERS_WINDOWS) as MoversWindow[]

export interface MoversFacts {
  since: Record<MoversWindow, Instant>
}

/** The snapshot; the rows of each window are a value of its name. */
export const MOVERS = { view: 'movers', name: 'movers', format: 1 } as const

export interface Mover {
  itemId: number
  ask: MicroUsd
  /** The composite ask at the window's start. */
  before: MicroUsd
  /** Providers that are up and list it. */
  providers: number
  units: number
}

const ROW_NUMBERS = 5

export const encodeMovers = (movers: readonly Mover[]): Buffer =>
  Buffer.from(
    Float64Array.from(
      movers.flatMap(({ itemId, ask, before, providers, units }) => [itemId, ask, before, providers, units]),
    ).buffer,
  )

/** The rows of some bytes; throws when they hold no whole number of rows. */
export function decodeMovers(bytes: Uint8Array): Mover[] {
  const numbers = new Float64Array(bytes.buffer, bytes.byteOffset, bytes.length / 8)
  if (numbers.length % ROW_NUMBERS !== 0) throw new Error('rows of movers are cut off')
  return Array.from({ length: numbers.length / ROW_NUMBERS }, (_, row) => {
    const members = numbers.subarray(row * ROW_NUMBERS) as unknown as [number, number, number, number, number]
    const [itemId, ask, before, providers, units] = members
    return { itemId, ask, before, providers, units }
  })
}
