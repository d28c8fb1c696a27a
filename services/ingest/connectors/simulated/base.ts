/**
 * The base of the simulated market: a recorded refresh as arrays, one element per entry.
 *
 * A phased finish has one entry as a whole and one per phase. Invariant: the same refresh, seed and number of names give the same
 * arrays, whatever the order of the names in the file; a smaller number of names is always a subset of a larger one.
 */
import { toMicroUsd } from '#schemas/values/money.ts'
import type { Phase } from '#schemas/values/phase.ts'
import { entryFault, priceMaxAt } from '../../entry.ts'
import type { RateTable } from '../../fx/rate-table.ts'
import type { Refresh } from '../../source.ts'

const WHOLE_ITEM = 0
export const PHASED_AS_WHOLE = 1
export const ONE_PHASE = 2

export type SimulatedBase = ReturnType<typeof simulatedBase>

/** How dear a phase is, in thousandths of the finish as a whole, which is its cheapest. */
const PHASE_PRICES: Record<'Doppler' | 'Gamma Doppler', [Phase, number][]> = {
  Doppler: [
    ['Phase 1', 1_010],
    ['Phase 2', 1_140],
    ['Phase 3', 1_000],
    ['Phase 4', 1_060],
    ['Ruby', 3_400],
    ['Sapphire', 3_150],
    ['Black Pearl', 2_900],
  ],
  'Gamma Doppler': [
    ['Phase 1', 1_030],
    ['Phase 2', 1_080],
    ['Phase 3', 1_000],
    ['Phase 4', 1_040],
    ['Emerald', 3_600],
  ],
}
const PHASED_FINISH = /\| (Doppler|Gamma Doppler) \(/
const TEN_DOLLARS_MICRO = 10_000_000
const DEPTH_MAX = 40
const DEPTH_MIN = 0.1

/** Makes the base of a market; throws when the refresh's currency has no rate or nothing in it is usable. */
export function simulatedBase(
  refresh: Refresh,
  rates: RateTable,
  options: { seed: number; items?: number | undefined },
) {
  const prices = lowestPrices(refresh, rates)
  if (prices.size === 0) throw new Error('the base refresh of the market holds no usable price')
  const rank = (name: string): number => mix(textHash(name, options.seed), 1) >>> 0
  const ranked = [...prices.keys()].sort((a, b) => rank(a) - rank(b))
  const chosen = ranked.slice(0, options.items).sort()
  const rows = chosen.flatMap(name => rowsOf(name, prices.get(name) as number))
  return {
    names: rows.map(row => row.name),
    phases: rows.map(row => row.phase),
    kinds: Uint8Array.from(rows, row => row.kind),
    hashes: Int32Array.from(rows, row => textHash(`${row.name}\0${row.phase ?? ''}`, options.seed)),
    microUsd: Float64Array.from(rows, row => row.micro),
    /** Listings relative to an item of ten dollars: more of what is cheap. */
    depths: Float64Array.from(rows, row =>
      Math.min(DEPTH_MAX, Math.max(DEPTH_MIN, Math.sqrt(TEN_DOLLARS_MICRO / row.micro))),
    ),
    stickers: chosen.filter(name => name.startsWith('Sticker | ')),
    charms: chosen.filter(name => name.startsWith('Charm | ')),
  }
}

function lowestPrices(refresh: Refresh, rates: RateTable): Map<string, number> {
  const rate = rates.rateOf(refresh.currency)
  if (!rate) throw new Error(`the base refresh of the market is in ${refresh.currency}, which has no exchange rate`)
  const priceMax = priceMaxAt(rate)
  const prices = new Map<string, number>()
  for (const entry of refresh.entries) {
    if (entryFault(entry, priceMax)) continue
    const name = entry.market_hash_name as string
    const micro = toMicroUsd(entry.price as number, rate)
    prices.set(name, Math.min(micro, prices.get(name) ?? micro))
  }
  return prices
}

function rowsOf(name: string, micro: number): { name: string; phase: Phase | null; kind: number; micro: number }[] {
  const finish = PHASED_FINISH.exec(name)?.[1] as keyof typeof PHASE_PRICES | undefined
  if (!finish) return [{ name, phase: null, kind: WHOLE_ITEM, micro }]
  const phases = PHASE_PRICES[finish].map(([phase, thousandths]) => ({
    name,
    phase,
    kind: ONE_PHASE,
    micro: Math.floor((micro * thousandths) / 1_000),
  }))
  return [{ name, phase: null, kind: PHASED_AS_WHOLE, micro }, ...phases]
}

// Noise: 32-bit integers and the four exact operations of doubles, so that a value is the same on every machine.

/** Mixes two 32-bit integers into one (finalizer of MurmurHash3). */
export function mix(a: number, b: number): number {
  let hash = a ^ Math.imul(b, 0x9e3779b1)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return hash ^ (hash >>> 16)
}

/** Hashes a text to 32 bits (FNV-1a over its code units, then mixed with the seed). */
export function textHash(text: string, seed: number): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return mix(hash, seed)
}

export const unit = (hash: number): number => (hash >>> 0) / 2 ** 32

/** A smooth curve in [0, 1) through one random point per period (value noise). */
export function wave(hash: number, time: number, period: number): number {
  const at = time / period
  const knot = Math.floor(at)
  const part = at - knot
  const from = unit(mix(hash, knot))
  const to = unit(mix(hash, knot + 1))
  return from + (to - from) * part * part * (3 - 2 * part)
}

/** Which of its lives something is in at a time; lives of one length start at a phase of its own. */
export const epochAt = (time: number, lifetime: number, phase: number): number => Math.floor(time / lifetime + phase)

export const epochStart = (epoch: number, lifetime: number, phase: number): number => (epoch - phase) * lifetime
