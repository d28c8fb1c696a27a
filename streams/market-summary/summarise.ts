/**
 * The figures of every item at a moment: best prices, past prices, units consumed, liquidity.
 *
 * Rules: DECISIONS.md, "Market items" and "Liquidity".
 */
import type { Side } from '#schemas/events/book-changed.ts'
import { DAY_MS, type Instant } from '#schemas/values/instant.ts'
import type { MicroUsd } from '#schemas/values/money.ts'
import { type Board, updatedAt } from './board.ts'
import { type ExternalFacts, scoreLiquidity } from './liquidity.ts'

/** The figures of one item, in micro-dollars and with unrounded scores; null where there is no data. */
export interface ItemFigures {
  item_id: number
  /** Lowest ask and highest bid of the providers whose quotes count. */
  best_ask_micro_usd: MicroUsd | null
  best_bid_micro_usd: MicroUsd | null
  provider_count: number
  /** Mean of (ask - bid) / ask over the providers with both, in percent. */
  avg_spread_pct: number | null
  /** The composite best ask a day, 7 days and 30 days before. */
  ask_24h_micro_usd: MicroUsd | null
  ask_7d_micro_usd: MicroUsd | null
  ask_30d_micro_usd: MicroUsd | null
  /** Units by which listing counts fell in a day, 7 days and 30 days. */
  sales_1d: number
  sales_7d: number
  sales_30d: number
  listing_score: number | null
  gap_score: number | null
  volume_score: number | null
  stability_score: number | null
  external_score: number | null
}

export type ByItem<T> = ReadonlyMap<number, T>

/** Past figures, by item. */
export interface Past {
  ask24h: ByItem<MicroUsd>
  ask7d: ByItem<MicroUsd>
  ask30d: ByItem<MicroUsd>
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

/** Summarises items in the order given. */
export function summarise(itemIds: readonly number[], board: Board, past: Past, terms: SummaryTerms): ItemFigures[] {
  const count = openCount(board, terms)
  const hasReference = past.referenceSales !== undefined || referenceHasQuotes(board, terms)
  return itemIds.map(item_id => {
    const counted = count(item_id)
    const [sales_1d, sales_7d, sales_30d] = past.units.get(item_id) ?? NO_UNITS
    const scores = scoreLiquidity({
      listings: counted.listings,
      ask: counted.ask,
      bid: counted.bid,
      unitsConsumed: sales_1d,
      hourlyCloses: past.hourlyCloses.get(item_id) ?? NO_CLOSES,
      external: hasReference ? { sales: past.referenceSales?.get(item_id) ?? 0, ...counted.reference } : undefined,
    })
    return {
      item_id,
      best_ask_micro_usd: counted.ask,
      best_bid_micro_usd: counted.bid,
      provider_count: counted.providers,
      avg_spread_pct: meanPercent(counted.spreads),
      ask_24h_micro_usd: past.ask24h.get(item_id) ?? null,
      ask_7d_micro_usd: past.ask7d.get(item_id) ?? null,
      ask_30d_micro_usd: past.ask30d.get(item_id) ?? null,
      sales_1d,
      sales_7d,
      sales_30d,
      listing_score: scores.listing,
      gap_score: scores.gap,
      volume_score: scores.volume,
      stability_score: scores.stability,
      external_score: scores.external,
    }
  })
}

const meanPercent = (shares: readonly number[]): number | null =>
  shares.length === 0 ? null : (shares.reduce((sum, share) => sum + share, 0) / shares.length) * 100

function referenceHasQuotes(board: Board, terms: SummaryTerms): boolean {
  const { ask } = quoteReaders(board, terms)
  const number = board.sides.ask.providers.indexOf(terms.listingsReference)
  for (let slot = 0; number >= 0 && slot < board.size; slot++) if (ask(slot, number) !== 0) return true
  return false
}

type QuoteReader = (slot: number, provider: number) => MicroUsd

function quoteReaders(board: Board, { asOf, down }: SummaryTerms): Record<Side, QuoteReader> {
  const oldest = asOf - SUMMARY_AGE_LIMIT_MS
  const reader = (name: Side): QuoteReader => {
    const side = board.sides[name]
    const { providers } = side
    const isDown = Uint8Array.from(providers, key => (down.has(key) ? 1 : 0))
    return (slot, provider) => {
      const cell = slot * providers.length + provider
      const micro = side.microUsd[cell] as number
      if (micro === 0 || isDown[provider] === 1) return 0
      return updatedAt(side, cell, board.partition(slot) * providers.length + provider) < oldest ? 0 : micro
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

function openCount(board: Board, terms: SummaryTerms): (itemId: number) => Counted {
  const read = quoteReaders(board, terms)
  const { ask: asks, bid: bids } = board.sides
  const bidNumbers = asks.providers.map(key => bids.providers.indexOf(key))
  return itemId => {
    const slot = board.slotOf(itemId)
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
