/**
 * The simulated market's asks and bids: what a provider quotes for each entry of the base at a time.
 *
 * Each (entry, provider) lives through lives of fixed length for its price, its stock and its being listed; a life's values are
 * hashes of its number, so any time can be asked for without walking those before it, and a restart continues the same market.
 * Invariant: (base, provider, time, rates) alone decide every entry, whatever was asked before.
 */
import { SALE_DETAILS, type SimulatedOptions } from '#infra/config/market.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { type Rate, toMinor } from '#schemas/values/money.ts'
import type { Phase } from '#schemas/values/phase.ts'
import type { SourceSettings } from '../../source.ts'
import {
  epochAt,
  epochStart,
  mix,
  ONE_PHASE,
  PHASED_AS_WHOLE,
  type SimulatedBase,
  textHash,
  unit,
  wave,
} from './base.ts'

export type SimulatedProvider = ReturnType<typeof simulatedProvider>

const WEEK_MS = 7 * DAY_MS
/** Of the changes, how many move the price; the others move the stock. */
const PRICE_SHARE = 0.6
const CHURN_MIN = 1e-9
const WEEKLY_SWING = 0.12
const DAILY_SWING = 0.05
const OWN_SWING = 0.06
const PHASES_SHARE = 0.7
const DETAIL_SHARE = 0.6
// Salts keep the hashes of one entry's different questions apart.
const COVERED = 11
const PRICED = 12
const STOCKED = 13
const LISTED = 14
const SPREAD = 15
const OWN_DEPTH = 16

/** Resolves a feed's options; what they leave open is drawn from the market's seed. */
export function simulatedProvider(source: SourceSettings, options: SimulatedOptions, seed: number) {
  const hash = textHash(source.provider, seed)
  const churn = Math.max(options.churn ?? 0.02, CHURN_MIN)
  const quotesPhases = options.phases ?? unit(mix(hash, 1)) < PHASES_SHARE
  return {
    side: source.side,
    /** Decides what it lists, and all its noise; asks, bids and sales of one provider share it. */
    hash,
    skippedKind: quotesPhases ? PHASED_AS_WHOLE : ONE_PHASE,
    factor: options.factor ?? 1,
    spread: source.side === 'bid' ? (options.spread ?? 0.1) : 0,
    coverage: options.coverage ?? 0.9,
    unlisted: options.unlisted ?? 0.01,
    stock: options.stock ?? 8,
    priceLifeMs: source.intervalMs / (churn * PRICE_SHARE),
    stockLifeMs: source.intervalMs / (churn * (1 - PRICE_SHARE)),
    listingLifeMs: source.intervalMs / churn,
    /** At most one sale in each. */
    saleSlotMs: DAY_MS / (options.per_day ?? 4_000),
    /** Of its sales. */
    details: new Set(options.details ?? SALE_DETAILS.filter((_, index) => unit(mix(hash, 100 + index)) < DETAIL_SHARE)),
  }
}

/** Everything that a provider asks or bids at a time, entry by entry in the base's order. */
export function* simulatedQuotes(base: SimulatedBase, provider: SimulatedProvider, time: number, rate: Rate) {
  const own = mix(provider.hash, saltOf(provider))
  for (let i = 0; i < base.names.length; i++) {
    if (!isCovered(base, i, provider)) continue
    const hash = mix(base.hashes[i] as number, own)
    const phase = unit(hash)
    const listing = epochAt(time, provider.listingLifeMs, phase)
    if (unit(mix(hash, mix(listing, LISTED))) < provider.unlisted) continue
    yield {
      market_hash_name: base.names[i] as string,
      phase: base.phases[i] as Phase | null,
      price: toMinor(quotedMicro(base, i, provider, hash, time), rate) || 1,
      quantity: quotedStock(base.depths[i] as number, provider, hash, time),
      url: null,
    }
  }
}

export function isCovered(base: SimulatedBase, i: number, provider: SimulatedProvider): boolean {
  if (base.kinds[i] === provider.skippedKind) return false
  return unit(mix(base.hashes[i] as number, mix(provider.hash, COVERED + saltOf(provider)))) < provider.coverage
}

/** Bids differ from asks in all their noise; sales follow the asks. */
const saltOf = ({ side }: SimulatedProvider): number => (side === 'bid' ? 2 : 1)

/** A provider's ask for an entry at a time in micro-dollars, listed or not; sales happen near it. */
export function askMicro(base: SimulatedBase, i: number, provider: SimulatedProvider, time: number): number {
  return quotedMicro(base, i, provider, mix(base.hashes[i] as number, mix(provider.hash, 1)), time)
}

function quotedMicro(base: SimulatedBase, i: number, provider: SimulatedProvider, hash: number, time: number): number {
  const phase = unit(hash)
  const epoch = epochAt(time, provider.priceLifeMs, phase)
  const start = epochStart(epoch, provider.priceLifeMs, phase)
  const life = mix(hash, mix(epoch, PRICED))
  const own = 1 + (unit(life) - 0.5) * OWN_SWING
  const spread = provider.spread * (0.5 + unit(mix(life, SPREAD)))
  const level = provider.factor * (1 - spread) * own * levelOf(base.hashes[i] as number, start)
  return Math.floor((base.microUsd[i] as number) * level)
}

/** The level of the whole market for an item: a slow wave with a quicker one on it, around 1. */
function levelOf(item: number, time: number): number {
  const weekly = (wave(item, time, WEEK_MS) - 0.5) * WEEKLY_SWING
  return 1 + weekly + (wave(mix(item, 2), time, DAY_MS) - 0.5) * DAILY_SWING
}

function quotedStock(depth: number, provider: SimulatedProvider, hash: number, time: number): number {
  const epoch = epochAt(time, provider.stockLifeMs, unit(mix(hash, STOCKED)))
  const usual = provider.stock * depth * (0.3 + 1.4 * unit(mix(hash, OWN_DEPTH)))
  return Math.max(1, Math.round(usual * (0.75 + 0.5 * unit(mix(hash, mix(epoch, STOCKED))))))
}
