/**
 * All pairs of an ask and a bid of different providers that leave a profit after fees, best first.
 *
 * One pass over the quotes; of each item the bids that count are few, so most asks are compared and dropped in
 * a few nanoseconds. Order: net profit descending, then item id, buy provider, sell provider, which is the order in which pairs are
 * found. Invariant: both legs are within the age limit at `asOf`, and of providers that count.
 */
import type { Instant } from '#schemas/values/instant.ts'
import { isDown, type ProviderHealth } from '#streams/provider-health/reader.ts'
import { ARBITRAGE_AGE_LIMIT_MS, ARBITRAGE_ROWS_MAX, type ArbitrageFees, netProfit } from './arbitrage-amounts.ts'
import { type MarketQuotes, type QuoteSide, updatedAt } from './market-quotes.ts'
import { type ArbitrageColumns, type ArbitrageFacts, arbitrageColumns, type ExcludedQuotes } from './table.ts'

export interface ArbitrageTerms {
  asOf: Instant
  excluded: ReadonlyMap<string, Exclusion>
  fees: ReadonlyMap<string, ArbitrageFees>
}

/** The profitable pairs in the order of items, buy and sell providers. */
type PairColumns = Record<'profit' | 'askCell' | 'bidCell', number[]>

interface Walk {
  side: QuoteSide
  isExcluded: Uint8Array
  fee: Float64Array
  /** Number of each provider among the providers of asks; bids and asks are compared by it. */
  number: Uint16Array
  stale: Uint32Array
  left: Uint32Array
  /** The providers whose quotes of the present slot count, and how many they are. */
  counting: Uint16Array
  count: number
}

export function computeArbitrage(
  quotes: MarketQuotes,
  terms: ArbitrageTerms,
  rowsMax = ARBITRAGE_ROWS_MAX,
): ArbitrageFacts & { columns: ArbitrageColumns } {
  const providers = [...new Set([...quotes.sides.ask.providers, ...quotes.sides.bid.providers])].sort()
  const ask = openWalk(quotes.sides.ask, providers, terms, fees => fees.buy)
  const bid = openWalk(quotes.sides.bid, providers, terms, fees => fees.sell)
  const pairs: PairColumns = { profit: [], askCell: [], bidCell: [] }
  const oldest = terms.asOf - ARBITRAGE_AGE_LIMIT_MS
  for (const slot of quotes.inOrder()) {
    countQuotes(ask, slot, quotes.partition(slot), oldest)
    countQuotes(bid, slot, quotes.partition(slot), oldest)
    addPairs(pairs, ask, bid, slot)
  }
  const order = byProfit(pairs).subarray(0, rowsMax)
  return {
    providers,
    columns: columnsOf(quotes, { ask, bid }, pairs, order, terms.asOf),
    excluded: { ask: excludedOf(ask, terms), bid: excludedOf(bid, terms) },
  }
}

function openWalk(
  side: QuoteSide,
  providers: readonly string[],
  terms: ArbitrageTerms,
  feeOf: (fees: ArbitrageFees) => number,
): Walk {
  const keys = side.providers
  return {
    side,
    isExcluded: Uint8Array.from(keys, key => (terms.excluded.has(key) ? 1 : 0)),
    fee: Float64Array.from(keys, key => feeOf(terms.fees.get(key) ?? { buy: 0, sell: 0 })),
    number: Uint16Array.from(keys, key => providers.indexOf(key)),
    stale: new Uint32Array(keys.length),
    left: new Uint32Array(keys.length),
    counting: new Uint16Array(keys.length),
    count: 0,
  }
}

function countQuotes(walk: Walk, slot: number, partition: number, oldest: Instant): void {
  const { side, isExcluded, stale, left, counting } = walk
  const providers = side.providers.length
  walk.count = 0
  for (let p = 0; p < providers; p++) {
    const cell = slot * providers + p
    if (side.microUsd[cell] === 0) continue
    if (isExcluded[p] === 1) left[p] = (left[p] as number) + 1
    else if (updatedAt(side, cell, partition * providers + p) < oldest) stale[p] = (stale[p] as number) + 1
    else counting[walk.count++] = p
  }
}

function addPairs(pairs: PairColumns, ask: Walk, bid: Walk, slot: number): void {
  const [asks, bids] = [ask.side.providers.length, bid.side.providers.length]
  for (let i = 0; i < ask.count; i++) {
    const p = ask.counting[i] as number
    const cell = slot * asks + p
    const buy = ask.side.microUsd[cell] as number
    for (let j = 0; j < bid.count; j++) {
      const q = bid.counting[j] as number
      const bidCell = slot * bids + q
      const sell = bid.side.microUsd[bidCell] as number
      if (sell <= buy || ask.number[p] === bid.number[q]) continue
      const profit = netProfit(buy, sell, ask.fee[p] as number, bid.fee[q] as number)
      if (profit <= 0) continue
      pairs.profit.push(profit)
      pairs.askCell.push(cell)
      pairs.bidCell.push(bidCell)
    }
  }
}

/** The indexes of pairs by descending profit; equal ones keep their order. */
const byProfit = ({ profit }: PairColumns): Uint32Array =>
  Uint32Array.from(profit.keys()).sort((one, other) => (profit[other] as number) - (profit[one] as number))

function columnsOf(
  quotes: MarketQuotes,
  { ask, bid }: { ask: Walk; bid: Walk },
  pairs: PairColumns,
  order: Uint32Array,
  asOf: Instant,
): ArbitrageColumns {
  const columns = arbitrageColumns(order.length)
  const [asks, bids] = [ask.side.providers.length, bid.side.providers.length]
  for (let row = 0; row < order.length; row++) {
    const pair = order[row] as number
    const [askCell, bidCell] = [pairs.askCell[pair] as number, pairs.bidCell[pair] as number]
    const slot = Math.floor(askCell / asks)
    const [p, q] = [askCell - slot * asks, bidCell - slot * bids]
    const partition = quotes.partition(slot)
    columns.itemId[row] = quotes.itemId(slot)
    columns.buyMicroUsd[row] = ask.side.microUsd[askCell] as number
    columns.sellMicroUsd[row] = bid.side.microUsd[bidCell] as number
    columns.quantity[row] = Math.min(ask.side.quantity[askCell] as number, bid.side.quantity[bidCell] as number)
    columns.buyAgeMs[row] = asOf - updatedAt(ask.side, askCell, partition * asks + p)
    columns.sellAgeMs[row] = asOf - updatedAt(bid.side, bidCell, partition * bids + q)
    columns.buyProvider[row] = ask.number[p] as number
    columns.sellProvider[row] = bid.number[q] as number
  }
  return columns
}

/** Quotes that were left out, by provider; those of whom none was are left out too. */
function excludedOf(walk: Walk, { excluded }: ArbitrageTerms): Record<string, ExcludedQuotes> {
  const counts: Record<string, ExcludedQuotes> = {}
  for (const [p, key] of walk.side.providers.entries()) {
    const [stale, left] = [walk.stale[p] as number, walk.left[p] as number]
    if (stale + left === 0) continue
    const reason = excluded.get(key)
    counts[key] = { stale, down: reason === 'down' ? left : 0, quarantined: reason === 'quarantined' ? left : 0 }
  }
  return counts
}

export type Exclusion = 'down' | 'quarantined'

/**
 * Provider → why its quotes do not count; those that count are left out. One that is down counts nowhere, one whose
 * refresh is quarantined not in arbitrage (DECISIONS.md, "Arbitrage" and "Market items").
 */
export function excludedProviders(
  providers: readonly { key: string; refresh_interval_ms: number }[],
  health: ReadonlyMap<string, ProviderHealth>,
  asOf: Instant,
): Map<string, Exclusion> {
  const excluded = new Map<string, Exclusion>()
  for (const { key, refresh_interval_ms } of providers) {
    const providerHealth = health.get(key)
    if (isDown(refresh_interval_ms, providerHealth, asOf)) excluded.set(key, 'down')
    else if (providerHealth?.quarantined_reason) excluded.set(key, 'quarantined')
  }
  return excluded
}
