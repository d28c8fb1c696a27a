/**
 * Alert conditions: their kinds, their thresholds as exact numbers, and whether one holds.
 *
 * A threshold is a decimal text of at most 15 digits before the point and eight after it, parsed into a whole number of
 * hundred-millionths. Conditions compare integers alone; equality does not fire (DECISIONS.md, "Alerts").
 */
import { majorBounds, type Rate } from './money.ts'

export const ALERT_KINDS = ['price_below', 'price_above', 'spread_exceeds'] as const

export type AlertKind = (typeof ALERT_KINDS)[number]

/** The best prices of an item over all providers, in micro-dollars; undefined where there is no quote. */
export interface BestPrices {
  ask: number | undefined
  bid: number | undefined
}

const THRESHOLD_FORM = /^(\d{1,15})(?:\.(\d{1,8}))?$/
const PLACES = 8

/** Hundred-millionths of a threshold's decimal text; undefined unless it is a positive number of the allowed form. */
export function parseThreshold(text: string): bigint | undefined {
  const match = THRESHOLD_FORM.exec(text)
  if (!match) return undefined
  const scaled = BigInt((match[1] ?? '') + (match[2] ?? '').padEnd(PLACES, '0'))
  return scaled > 0n ? scaled : undefined
}

/**
 * The number that decides a kind at some prices: `price_below` holds for every threshold above it, the two others
 * for every threshold below it. Undefined where a price or the currency's rate is missing: then nothing holds.
 */
export function decisiveNumber(kind: AlertKind, best: BestPrices, rate: Rate | undefined): bigint | undefined {
  const { ask, bid } = best
  if (ask === undefined) return undefined
  if (kind === 'spread_exceeds') return bid === undefined || ask === 0 ? undefined : spreadCeiling(ask, bid)
  if (rate === undefined) return undefined
  const { floor, ceiling } = majorBounds(ask, rate)
  return kind === 'price_below' ? floor : ceiling
}

/** Whether a threshold's condition holds, by the number of {@link decisiveNumber}. */
export function holds(kind: AlertKind, threshold: bigint, decisive: bigint): boolean {
  return kind === 'price_below' ? threshold > decisive : threshold < decisive
}

/** (ask - bid) / ask x 100 in hundred-millionths, rounded up. */
function spreadCeiling(ask: number, bid: number): bigint {
  const [numerator, denominator] = [BigInt(ask - bid) * 10_000_000_000n, BigInt(ask)]
  const quotient = numerator / denominator
  return quotient * denominator < numerator ? quotient + 1n : quotient
}

export function spreadText(ask: number, bid: number): string {
  const denominator = 2n * BigInt(ask)
  const digits = ((BigInt(ask - bid) * 2_000_000n + BigInt(ask)) / denominator).toString().padStart(5, '0')
  return `${digits.slice(0, -4)}.${digits.slice(-4)}`
}
