/**
 * The figures of every item at a moment: best prices, past prices, units consumed, liquidity.
 *
 * Rules: DECISIONS.md, "Market items" and "Liquidity".
 */
import type { Side } from '#schemas/events/book-changed.ts'
import { DAY_MS, type Instant } from '#schemas/values/instant.ts'
import type { MicroUsd } from '#schemas/values/money.ts'
import { type ExternalFacts, type LiquidityScores, scoreLiquidity } from './liquidity.ts'
import { type MarketQuotes, updatedAt } from './market-quotes.ts'

/** The figures of one item, in micro-dollars and with unrounded scores; null where there is no data. */
export interface ItemFigures {
  itemId: number
  /** Lowest ask and highest bid of the providers whose quotes count. */
  ask: MicroUsd | null
  bid: MicroUsd | null
  providers: number
  /** Mean of (ask - bid) / ask over the providers with both, in percent. */
  spreadPct: number | null
  /** The composite best ask a day, 7 days and 30 days before. */
  pastAsks: (MicroUsd | null)[]
  /** Units by which listing counts fell in a day, 7 days and 30 days. */
  units: readonly [number, number, number]
  scores: LiquidityScores
}

export type ByItem<T> = ReadonlyMap<number, T>

export interface Past {
  /** A day, 7 days and 30 days before. */
  asks: readonly ByItem<MicroUsd>[]
  /** Units consumed in 24 hours, 7 days and 30 days. */
  units: ByItem<readonly [number, number, number]>
  hourlyCloses: ByItem<readonly number[]>
  /** Sales of the sales reference in 24 hours; undefined when it reports none. */
  referenceSales: ByItem<number> | undefined
}

interface SummaryTerms {
  asOf: Instant
  /** Providers whose quotes do not count. */
  down: ReadonlySet<string>
  /** Key of the provider whose listings are the second reference. */
  listingsReference: string
}

/** How old a quote may be (DECISIONS.md, "Market items"). */
const SUMMARY_AGE_LIMIT_MS = DAY_MS

interface Counted {
  ask: MicroUsd | null
  bid: MicroUsd | null
  providers: number
  listings: number
  /** (ask - bid) / ask of the providers with both. */
  spreads: number[]
  reference: Omit<ExternalFacts, 'sales'>
}

const NO_UNITS = [0, 0, 0] as const
const NO_CLOSES: readonly number[] = []

export function summarise(
  itemIds: readonly number[],
  quotes: MarketQuotes,
  past: Past,
  terms: SummaryTerms,
): ItemFigures[] {
  const count = openCount(quotes, terms)
  const hasReference = past.referenceSales !== undefined || referenceHasQuotes(quotes, terms)
  return itemIds.map(itemId => {
    const { ask, bid, providers, spreads, ...counted } = count(itemId)
    const units = past.units.get(itemId) ?? NO_UNITS
    const scores = scoreLiquidity({
      ask,
      bid,
      listings: counted.listings,
      unitsConsumed: units[0],
      hourlyCloses: past.hourlyCloses.get(itemId) ?? NO_CLOSES,
      external: hasReference ? { sales: past.referenceSales?.get(itemId) ?? 0, ...counted.reference } : undefined,
    })
    const pastAsks = past.asks.map(asks => asks.get(itemId) ?? null)
    return { itemId, ask, bid, providers, spreadPct: meanPercent(spreads), pastAsks, units, scores }
  })
}

const meanPercent = (shares: readonly number[]): number | null =>
  shares.length === 0 ? null : (shares.reduce((sum, share) => sum + share, 0) / shares.length) * 100

function referenceHasQuotes(quotes: MarketQuotes, terms: SummaryTerms): boolean {
  const { ask } = quoteReaders(quotes, terms)
  const number = quotes.sides.ask.providers.indexOf(terms.listingsReference)
  for (let slot = 0; number >= 0 && slot < quotes.size; slot++) if (ask(slot, number) !== 0) return true
  return false
}

type QuoteReader = (slot: number, provider: number) => MicroUsd

function quoteReaders(quotes: MarketQuotes, { asOf, down }: SummaryTerms): Record<Side, QuoteReader> {
  const oldest = asOf - SUMMARY_AGE_LIMIT_MS
  const reader = (name: Side): QuoteReader => {
    const side = quotes.sides[name]
    const { providers } = side
    const isDown = Uint8Array.from(providers, key => (down.has(key) ? 1 : 0))
    return (slot, provider) => {
      const cell = slot * providers.length + provider
      const micro = side.microUsd[cell] as number
      if (micro === 0 || isDown[provider] === 1) return 0
      return updatedAt(side, cell, quotes.partition(slot) * providers.length + provider) < oldest ? 0 : micro
    }
  }
  return { ask: reader('ask'), bid: reader('bid') }
}

const NOTHING: Counted = {
  ask: null,
  bid: null,
  providers: 0,
  listings: 0,
  spreads: [],
  reference: { listings: 0, ask: null, bid: null },
}

function openCount(quotes: MarketQuotes, terms: SummaryTerms): (itemId: number) => Counted {
  const read = quoteReaders(quotes, terms)
  const { ask: asks, bid: bids } = quotes.sides
  const bidNumbers = asks.providers.map(key => bids.providers.indexOf(key))
  return itemId => {
    const slot = quotes.slotOf(itemId)
    if (slot === undefined) return NOTHING
    const counted: Counted = { ...NOTHING, spreads: [], reference: { ...NOTHING.reference } }
    const bidOf = bids.providers.map((_, number) => read.bid(slot, number))
    for (const bid of bidOf) if (bid > (counted.bid ?? 0)) counted.bid = bid
    for (const [number, key] of asks.providers.entries()) {
      const ask = read.ask(slot, number)
      const bid = bidOf[bidNumbers[number] as number] ?? 0
      const quantity = ask === 0 ? 0 : (asks.quantity[slot * asks.providers.length + number] as number)
      if (key === terms.listingsReference) {
        counted.reference = { listings: quantity, ask: ask || null, bid: bid || null }
      }
      if (ask === 0) continue
      counted.providers += 1
      counted.listings += quantity
      if (counted.ask === null || ask < counted.ask) counted.ask = ask
      if (bid !== 0) counted.spreads.push((ask - bid) / ask)
    }
    return counted
  }
}
