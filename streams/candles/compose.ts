/**
 * Candles of the composite best ask, made from what each provider's own asks did in each bucket.
 *
 * A provider's changes are in time order, those of different providers are not, so the stored unit is the part: one provider's
 * asks for one item in one bucket. Candles are composed of parts when they are read, and come out the same in whatever order the
 * providers reached the log. Formulas: DECISIONS.md, "Candle prices". Invariant: l <= o, c <= h. Amounts are micro-dollars.
 */
import type { PausingWork } from '#infra/runtime/turns.ts'
import type { Instant } from '#schemas/values/instant.ts'
import type { MicroUsd } from '#schemas/values/money.ts'
import type { EdgeAsk, EdgeTable, PartTable } from './table.ts'

/** A provider's newest ask for an item and when it changed; where it was withdrawn, the last one and when it went. */
export interface StandingAsk extends EdgeAsk {
  provider: string
}

export interface Candle {
  /** Start of the bucket. */
  t: Instant
  o: MicroUsd
  h: MicroUsd
  l: MicroUsd
  c: MicroUsd
  v: number
  q: number
  providers: { o: string; h: string; l: string; c: string }
}

interface Composite {
  micro: MicroUsd
  provider: string
  quantity: number
}

interface CandleSources {
  /** All parts of the window, and per provider the last one before it and the first one after it, in any order. More do no harm. */
  parts: PartTable
  /** Of those that changed last before the window, at least; of others one of before it does no harm. */
  standing: readonly StandingAsk[]
}

/** Half-open, both ends on bucket edges. */
export interface CandleWindow {
  start: Instant
  end: Instant
  intervalMs: number
}

interface ComposedCandles {
  opening: Composite | undefined
  candles: Candle[]
}

/** Each provider's last ask so far, by its number; `known` is 1 where there is one. */
type Carried = Readonly<Record<'known' | keyof EdgeTable, Float64Array>>

interface Composition {
  parts: PartTable
  names: readonly string[]
  /** The provider's number of each row. */
  numbers: Uint16Array
  carried: Carried
}

/** The lowest ask seen, ties to the lowest provider. */
class Lowest {
  /** Number of the provider, -1 before any. */
  by = -1
  micro: MicroUsd = Number.POSITIVE_INFINITY

  see(by: number, micro: MicroUsd): void {
    if (micro > this.micro || (micro === this.micro && by >= this.by)) return
    this.by = by
    this.micro = micro
  }
}

/** Parts that are composed between two pauses, and such as are only put in order. */
const [PARTS_AT_ONCE, ORDERED_AT_ONCE] = [20_000, 100_000]

export function* composeCandles(sources: CandleSources, window: CandleWindow): PausingWork<ComposedCandles> {
  const composition = yield* openComposition(sources, window.start)
  const { numbers, carried } = composition
  const { bucket, closing } = sources.parts
  const opening = compositeOf(composition)
  const byBucket = new Map<Instant, number[]>()
  let [last, inBucket] = [Number.NaN, [] as number[]]
  for (let row = 0; row < bucket.length; row++) {
    if (row % ORDERED_AT_ONCE === ORDERED_AT_ONCE - 1) yield
    const start = bucket[row] as number
    if (start < window.start || start >= window.end) continue
    // Rows of a bucket are mostly neighbours.
    if (start !== last) {
      ;[last, inBucket] = [start, byBucket.get(start) ?? []]
      byBucket.set(start, inBucket)
    }
    inBucket.push(row)
  }
  const buckets = [...byBucket].sort(([a], [b]) => a - b)
  const candles: Candle[] = []
  let composed = 0
  for (const [start, rows] of buckets) {
    const candle = composeBucket(start, rows, composition)
    for (const row of rows) carry(carried, numbers[row] as number, edgeAt(closing, row))
    candle.q = listedQuantity(carried)
    candles.push(candle)
    composed += rows.length
    if (composed < PARTS_AT_ONCE) continue
    composed = 0
    yield
  }
  return { opening, candles }
}

/** Puts a flat candle, at the composite before it, into each empty bucket after the first known composite. */
export function fillCandles(composed: ComposedCandles, window: CandleWindow): Candle[] {
  const filled: Candle[] = []
  const candleAt = new Map(composed.candles.map(candle => [candle.t, candle]))
  let last = composed.opening
  for (let t = window.start; t < window.end; t += window.intervalMs) {
    const candle = candleAt.get(t)
    if (candle) {
      last = { micro: candle.c, provider: candle.providers.c, quantity: candle.q }
      filled.push(candle)
    } else if (last) {
      const { micro, provider, quantity } = last
      const providers = { o: provider, h: provider, l: provider, c: provider }
      filled.push({ t, o: micro, h: micro, l: micro, c: micro, v: 0, q: quantity, providers })
    }
  }
  return filled
}

/** Numbers the providers in their order, and finds every provider's ask at the window's start; pauses on its way through many parts. */
function* openComposition({ parts, standing }: CandleSources, start: Instant): PausingWork<Composition> {
  const seen = new Map<string, number>()
  const numberAsSeen = (provider: string): number => {
    const number = seen.get(provider) ?? seen.size
    if (number === seen.size) seen.set(provider, number)
    return number
  }
  for (const { provider } of standing) numberAsSeen(provider)
  const numbers = new Uint16Array(parts.provider.length)
  for (let row = 0; row < numbers.length; row++) {
    numbers[row] = numberAsSeen(parts.provider[row] as string)
    if (row % ORDERED_AT_ONCE === ORDERED_AT_ONCE - 1) yield
  }
  const names = [...seen.keys()].sort()
  const numberOf = new Map(names.map((name, number) => [name, number]))
  const inOrder = Array.from(seen.keys(), name => numberOf.get(name) as number)
  for (let row = 0; row < numbers.length; row++) numbers[row] = inOrder[numbers[row] as number] as number
  const column = () => new Float64Array(names.length)
  const carried = { known: column(), standing: column(), micro: column(), quantity: column(), at: column() }
  for (const ask of standing) {
    if (ask.at < start) carry(carried, numberOf.get(ask.provider) as number, ask)
  }
  yield* carryEdges({ parts, names, numbers, carried }, start)
  return { parts, names, numbers, carried }
}

/**
 * Every provider's ask at the window's start: from its last part before, else from the opening of its
 * first part after, else from its newest ask, which then is listed since before the window.
 */
function* carryEdges({ parts, names, numbers, carried }: Composition, start: Instant): PausingWork<void> {
  const before = new Int32Array(names.length).fill(-1)
  const after = new Int32Array(names.length).fill(-1)
  const { bucket, opening, closing } = parts
  for (let row = 0; row < bucket.length; row++) {
    const [number, at] = [numbers[row] as number, bucket[row] as number]
    const side = at < start ? before : after
    const nearest = side[number] as number
    const isNearer = nearest < 0 || (at < start ? at > (bucket[nearest] as number) : at < (bucket[nearest] as number))
    if (isNearer) side[number] = row
    if (row % ORDERED_AT_ONCE === ORDERED_AT_ONCE - 1) yield
  }
  for (const [number, row] of after.entries()) {
    if (row < 0) continue
    carry(carried, number, edgeAt(opening, row))
    // Where none was listed, its price is a later one: the newest ask before the window was withdrawn.
    carried.known[number] = opening.standing[row] as number
  }
  for (const [number, row] of before.entries()) if (row >= 0) carry(carried, number, edgeAt(closing, row))
}

type EdgeNumbers = Readonly<Record<keyof EdgeTable, number>>

const edgeAt = ({ standing, micro, quantity, at }: EdgeTable, row: number): EdgeNumbers => ({
  standing: standing[row] as number,
  micro: micro[row] as number,
  quantity: quantity[row] as number,
  at: at[row] as number,
})

function carry(carried: Carried, number: number, edge: EdgeNumbers | EdgeAsk): void {
  carried.known[number] = 1
  carried.standing[number] = Number(edge.standing)
  carried.micro[number] = edge.micro
  carried.quantity[number] = edge.quantity
  carried.at[number] = edge.at
}

/** Its quantity is still open. */
function composeBucket(bucket: Instant, rows: readonly number[], composition: Composition): Candle {
  const { parts, names, numbers } = composition
  const unchanged = unchangedProviders(rows, composition)
  const lows = new Float64Array(unchanged.length + rows.length)
  let [v, seen] = [0, 0]
  const [lowestUnchanged, low, high] = [new Lowest(), new Lowest(), new Lowest()]
  for (const number of unchanged) {
    const micro = composition.carried.micro[number] as number
    lowestUnchanged.see(number, micro)
    low.see(number, micro)
    high.see(number, -micro)
    lows[seen++] = micro
  }
  for (const row of rows) {
    low.see(numbers[row] as number, parts.low[row] as number)
    high.see(numbers[row] as number, -(parts.high[row] as number))
    lows[seen++] = parts.low[row] as number
    v += parts.falls[row] as number
  }
  const o = edgeAsk(parts.opening, Math.min, { rows, numbers, unchanged: lowestUnchanged })
  const c = edgeAsk(parts.closing, Math.max, { rows, numbers, unchanged: lowestUnchanged })
  const capped = Math.min(-high.micro, highCap(lows))
  const key = ({ by }: Lowest): string => names[by] as string
  return {
    t: bucket,
    o: o.micro,
    h: Math.max(capped, o.micro, c.micro),
    l: low.micro,
    c: c.micro,
    v,
    q: 0,
    providers: { o: key(o), h: key(high), l: key(low), c: key(c) },
  }
}

function unchangedProviders(rows: readonly number[], { names, numbers, carried }: Composition): number[] {
  const moved = new Uint8Array(names.length)
  for (const row of rows) moved[numbers[row] as number] = 1
  const unchanged: number[] = []
  for (let number = 0; number < names.length; number++) {
    if (carried.standing[number] === 1 && moved[number] === 0) unchanged.push(number)
  }
  return unchanged
}

/** The lowest ask at an edge of a bucket; where none is listed, of the moment nearest to that edge (the first, or the last). */
function edgeAsk(
  { standing, micro, at }: EdgeTable,
  nearest: (a: number, b: number) => number,
  { rows, numbers, unchanged }: { rows: readonly number[]; numbers: Uint16Array; unchanged: Lowest },
): Lowest {
  const lowest = new Lowest()
  lowest.see(unchanged.by, unchanged.micro)
  for (const row of rows) if (standing[row] === 1) lowest.see(numbers[row] as number, micro[row] as number)
  if (lowest.by >= 0) return lowest
  const moment = rows.reduce((found, row) => nearest(found, at[row] as number), at[rows[0] as number] as number)
  for (const row of rows) if (at[row] === moment) lowest.see(numbers[row] as number, micro[row] as number)
  return lowest
}

function compositeOf({ names, carried }: Composition): Composite | undefined {
  const { known, standing, micro, at } = carried
  const numbers = [...names.keys()].filter(number => known[number] === 1)
  if (numbers.length === 0) return undefined
  const listed = numbers.filter(number => standing[number] === 1)
  const moment = Math.max(...numbers.map(number => at[number] as number))
  const lowest = new Lowest()
  for (const number of listed.length > 0 ? listed : numbers.filter(number => at[number] === moment)) {
    lowest.see(number, micro[number] as number)
  }
  return { micro: lowest.micro, provider: names[lowest.by] as string, quantity: listedQuantity(carried) }
}

function listedQuantity({ standing, quantity }: Carried): number {
  let sum = 0
  for (let number = 0; number < standing.length; number++) {
    if (standing[number] === 1) sum += quantity[number] as number
  }
  return sum
}

/** 1.5 x the median of the providers' lowest asks, halves up at both steps. */
function highCap(lows: Float64Array): MicroUsd {
  const sorted = lows.sort()
  const [below, above] = [sorted[(sorted.length - 1) >> 1] ?? 0, sorted[sorted.length >> 1] ?? 0]
  return Math.round((Math.round((below + above) / 2) * 3) / 2)
}
