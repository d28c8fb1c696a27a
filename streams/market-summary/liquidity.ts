/**
 * The liquidity score of an item and its parts.
 *
 * Formulas: DECISIONS.md, "Liquidity". Scores are unrounded; they are rounded where they are shown.
 */

export interface LiquidityFacts {
  listings: number
  /** Best ask and best bid; null where there is none. */
  ask: number | null
  bid: number | null
  unitsConsumed: number
  /** The composite closes of those of the last 24 completed hours in which anything changed. */
  hourlyCloses: readonly number[]
  external: ExternalFacts | undefined
}

/** The figures of the two reference providers; undefined as a whole when neither has any. */
export interface ExternalFacts {
  sales: number
  /** Listings of the second, and its own ask and bid. */
  listings: number
  ask: number | null
  bid: number | null
}

/** Unrounded scores; null where the data is missing. */
export interface LiquidityScores {
  listing: number | null
  gap: number | null
  volume: number | null
  stability: number | null
  external: number | null
}

const HOURS = 24
const LARGEST = 100
/** A coefficient of variation of closes needs two of them. */
const FEWEST_CLOSES = 2
const UNSTABLE_AT = 0.2

/** Scores an item; without any ask or bid there is no liquidity to speak of. */
export function scoreLiquidity(facts: LiquidityFacts): LiquidityScores {
  const { listings, ask, bid, unitsConsumed, external: reference } = facts
  if (ask === null && bid === null) {
    return { listing: null, gap: null, volume: null, stability: null, external: null }
  }
  const listing = logarithmic(18, listings, 500)
  const gap = 12 * clamp((ratio(bid, ask) - 0.5) / 0.45, 1)
  const volume = logarithmic(45, unitsConsumed, 200)
  const external = reference ? externalScore(reference) : null
  const room = LARGEST - (listing + gap + volume + (external ?? 0))
  const stable = stabilityOf(facts.hourlyCloses)
  return { listing, gap, volume, stability: stable === null ? null : Math.min(stable, room), external }
}

function externalScore({ sales, listings, ask, bid }: ExternalFacts): number {
  return logarithmic(15, sales, 120) + logarithmic(6, listings, 30) + (ratio(bid, ask) >= 0.85 ? 4 : 0)
}

/** Up to 4 for hours with a close, up to 4 for closes that vary little. */
function stabilityOf(closes: readonly number[]): number | null {
  if (closes.length < FEWEST_CLOSES) return null
  const mean = closes.reduce((sum, close) => sum + close, 0) / closes.length
  const variance = closes.reduce((sum, close) => sum + (close - mean) ** 2, 0) / closes.length
  const variation = Math.sqrt(variance) / mean
  return 4 * (closes.length / HOURS) + 4 * clamp(1 - variation / UNSTABLE_AT, 1)
}

/** `most` at `full` and beyond, growing with the logarithm. */
const logarithmic = (most: number, value: number, full: number): number =>
  most * clamp(Math.log(1 + value) / Math.log(1 + full), 1)

const clamp = (value: number, most: number): number => Math.min(Math.max(value, 0), most)

const ratio = (bid: number | null, ask: number | null): number => (bid === null || ask === null ? 0 : bid / ask)
