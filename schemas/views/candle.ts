/**
 * Candles of the composite best ask, made from what each provider's own asks did in each bucket.
 *
 * Pure. A provider's changes are in time order, those of different providers are not, so the stored
 * unit is the part: one provider's asks for one item in one bucket. Candles are composed of parts when
 * they are read, and come out the same in whatever order the providers reached the log.
 * Formulas: decisions.md, "Candle prices". Invariant: l <= o, c <= h. Amounts are micro-dollars.
 */
import type { Instant } from '../values/instant.ts'
import type { MicroUsd } from '../values/money.ts'

/** The bucket widths of the API, with their retention (decisions.md, "Prices"). */
export const CANDLE_INTERVALS = {
  '5m': { ms: 300_000, retentionDays: 7 },
  '1h': { ms: 3_600_000, retentionDays: 30 },
  '1d': { ms: 86_400_000, retentionDays: 365 },
} as const

/** A bucket width. */
export type CandleInterval = keyof typeof CANDLE_INTERVALS

/** A provider's ask at an edge of a bucket. */
export interface EdgeAsk {
  /** Whether an ask stood at that edge. */
  standing: boolean
  /** The ask; where none stood, the nearest inside the bucket: the first one, or the last one. */
  micro: MicroUsd
  /** Listings of the standing ask, else 0. */
  quantity: number
  /** When the provider's first, or last, change in the bucket happened. */
  at: Instant
}

/** What one provider's asks for an item did in one bucket in which at least one of them changed. */
export interface CandlePart {
  /** Start of the bucket. */
  bucket: Instant
  provider: string
  opening: EdgeAsk
  closing: EdgeAsk
  /** Lowest and highest ask that stood at any moment of the bucket, the one at its start included. */
  low: MicroUsd
  high: MicroUsd
  /** Sum of the falls of the listing count; a withdrawal is a fall to zero. */
  falls: number
}

/** A provider's newest ask for an item and when it changed; where it was withdrawn, the last one and when it went. */
export interface StandingAsk extends EdgeAsk {
  provider: string
}

/** A composite candle. */
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

/** The composite that stood last before a window, and the listings standing at its start. */
export interface Composite {
  micro: MicroUsd
  provider: string
  quantity: number
}

/** What candles are composed of. */
export interface CandleSources {
  /**
   * All parts of the window, and per provider the last one before it and the first one after it, in any
   * order (query: schemas/views/clickhouse/candle-parts.ts). More do no harm.
   */
  parts: readonly CandlePart[]
  standing: readonly StandingAsk[]
}

/** Half-open, both ends on bucket edges. */
export interface CandleWindow {
  start: Instant
  end: Instant
  intervalMs: number
}

/** The candles of a window, oldest first, and what stood before the first. */
export interface ComposedCandles {
  opening: Composite | undefined
  candles: Candle[]
}

/** Each provider's last ask so far. */
type Carried = Map<string, EdgeAsk>

interface Priced {
  provider: string
  micro: MicroUsd
}

/** Composes the candles of a window: one for each bucket in which at least one provider changed. */
export function composeCandles(sources: CandleSources, window: CandleWindow): ComposedCandles {
  const carried = carriedIn(sources, window.start)
  const opening = compositeOf(Array.from(carried, ([provider, ask]) => ({ provider, ...ask })))
  const byBucket = new Map<Instant, CandlePart[]>()
  for (const part of sources.parts) {
    if (part.bucket < window.start || part.bucket >= window.end) continue
    const inBucket = byBucket.get(part.bucket)
    if (inBucket) inBucket.push(part)
    else byBucket.set(part.bucket, [part])
  }
  const buckets = [...byBucket].sort(([a], [b]) => a - b)
  const candles = buckets.map(([bucket, parts]) => {
    const candle = composeBucket(bucket, parts, carried)
    for (const part of parts) carried.set(part.provider, part.closing)
    candle.q = standingQuantity(carried)
    return candle
  })
  return { opening, candles }
}

/** Puts a flat candle, at the composite before it, into each empty bucket after the first known composite. */
export function fillCandles(composed: ComposedCandles, window: CandleWindow): Candle[] {
  const filled: Candle[] = []
  const known = new Map(composed.candles.map(candle => [candle.t, candle]))
  let last = composed.opening
  for (let t = window.start; t < window.end; t += window.intervalMs) {
    const candle = known.get(t)
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

/**
 * Every provider's ask at the window's start: from its last part before, else from the opening of its
 * first part after, else from its newest ask, which then stands since before the window.
 */
function carriedIn(sources: CandleSources, start: Instant): Carried {
  const before = new Map<string, CandlePart>()
  const after = new Map<string, CandlePart>()
  for (const part of sources.parts) {
    const { provider, bucket } = part
    if (bucket < start) {
      if (bucket > (before.get(provider)?.bucket ?? Number.NEGATIVE_INFINITY)) before.set(provider, part)
    } else if (bucket < (after.get(provider)?.bucket ?? Number.POSITIVE_INFINITY)) after.set(provider, part)
  }
  const carried: Carried = new Map()
  for (const ask of sources.standing) if (ask.at < start) carried.set(ask.provider, ask)
  for (const [provider, { opening }] of after) if (opening.standing) carried.set(provider, opening)
  for (const [provider, { closing }] of before) carried.set(provider, closing)
  return carried
}

/** Where no ask is known yet: any ask is lower, and higher. */
const NO_LOW: Priced = { provider: '', micro: Number.POSITIVE_INFINITY }
const NO_HIGH: Priced = { provider: '', micro: Number.NEGATIVE_INFINITY }

/**
 * Its quantity is still open. A month of hours has 28,000 asks to look at and a year of days 15,000, so nothing is copied
 * here: 2 ms instead of 10.
 */
function composeBucket(bucket: Instant, parts: readonly CandlePart[], carried: Carried): Candle {
  const still = stillStanding(parts, carried)
  const o = edgeAsk(parts, 'opening', still)
  const c = edgeAsk(parts, 'closing', still)
  const lows = new Float64Array(still.length + parts.length)
  let [l, h] = [NO_LOW, NO_HIGH]
  let [v, seen] = [0, 0]
  const see = (provider: string, low: MicroUsd, high: MicroUsd): void => {
    lows[seen++] = low
    if (low < l.micro || (low === l.micro && provider < l.provider)) l = { provider, micro: low }
    if (high > h.micro || (high === h.micro && provider < h.provider)) h = { provider, micro: high }
  }
  for (const { provider, micro } of still) see(provider, micro, micro)
  for (const { provider, low, high, falls } of parts) {
    see(provider, low, high)
    v += falls
  }
  const capped = Math.min(h.micro, highCap(lows))
  return {
    t: bucket,
    o: o.micro,
    h: Math.max(capped, o.micro, c.micro),
    l: l.micro,
    c: c.micro,
    v,
    q: 0,
    providers: { o: o.provider, h: h.provider, l: l.provider, c: c.provider },
  }
}

/** The asks that stand through a bucket without a change. */
function stillStanding(parts: readonly CandlePart[], carried: Carried): Priced[] {
  const still: Priced[] = []
  const moved = new Set<string>()
  for (const { provider } of parts) moved.add(provider)
  for (const [provider, { standing, micro }] of carried) {
    if (standing && !moved.has(provider)) still.push({ provider, micro })
  }
  return still
}

/** The lowest ask at an edge of a bucket; where none stands, of the moment nearest to that edge. */
function edgeAsk(parts: readonly CandlePart[], side: 'opening' | 'closing', still: readonly Priced[]): Priced {
  let chosen = NO_LOW
  const see = (provider: string, micro: MicroUsd): void => {
    if (micro < chosen.micro || (micro === chosen.micro && provider < chosen.provider)) chosen = { provider, micro }
  }
  for (const { provider, micro } of still) see(provider, micro)
  for (const part of parts) if (part[side].standing) see(part.provider, part[side].micro)
  if (chosen !== NO_LOW) return chosen
  const asks = parts.map(part => ({ provider: part.provider, ...part[side] }))
  return lowest(standingOr(asks, side === 'opening' ? Math.min : Math.max))
}

/** The standing asks; where none stands, those of the moment nearest to that edge (the first, or the last). */
function standingOr(asks: readonly StandingAsk[], nearest: (...times: number[]) => number): readonly StandingAsk[] {
  const standing = asks.filter(ask => ask.standing)
  if (standing.length > 0) return standing
  const moment = nearest(...asks.map(ask => ask.at))
  return asks.filter(ask => ask.at === moment)
}

function compositeOf(asks: readonly StandingAsk[]): Composite | undefined {
  if (asks.length === 0) return undefined
  const { micro, provider } = lowest(standingOr(asks, Math.max))
  return { micro, provider, quantity: asks.reduce((sum, ask) => sum + (ask.standing ? ask.quantity : 0), 0) }
}

function standingQuantity(carried: Carried): number {
  let sum = 0
  for (const ask of carried.values()) if (ask.standing) sum += ask.quantity
  return sum
}

/** 1.5 x the median of the providers' lowest asks, halves up at both steps. */
function highCap(lows: Float64Array): MicroUsd {
  const sorted = lows.sort()
  const [below, above] = [sorted[(sorted.length - 1) >> 1] ?? 0, sorted[sorted.length >> 1] ?? 0]
  return Math.round((Math.round((below + above) / 2) * 3) / 2)
}

/** The lowest, ties to the lowest provider key. */
function lowest(asks: readonly Priced[]): Priced {
  return asks.reduce((chosen, ask) => {
    const order = ask.micro - chosen.micro
    return order < 0 || (order === 0 && ask.provider < chosen.provider) ? ask : chosen
  })
}
