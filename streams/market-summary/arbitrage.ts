/**
 * All pairs of an ask and a bid of different providers that leave a profit after fees, best first.
 *
 * One pass over the board; of each item the bids that count are few, so most asks are compared and dropped in
 * a few nanoseconds. Order: net profit descending, then item id, buy provider, sell provider; a radix sort on the
 * profit's bits keeps the order in which pairs are found among equals (a comparing sort of a million rows took
 * ten times as long). Invariant: both legs are within the age limit at `asOf`, and of providers that count.
 */
import type { Instant } from '#schemas/values/instant.ts'
import { isDown, type ProviderHealth } from '#streams/provider-health/reader.ts'
import { ARBITRAGE_AGE_LIMIT_MS, ARBITRAGE_ROWS_MAX, type ArbitrageFees, netProfit } from './arbitrage-amounts.ts'
import { type Board, type BoardSide, updatedAt } from './board.ts'
import { type ArbitrageColumns, type ArbitrageFacts, arbitrageColumns, type ExcludedQuotes } from './table.ts'

interface ArbitragePairs extends ArbitrageFacts {
  columns: ArbitrageColumns
}

export interface ArbitrageTerms {
  asOf: Instant
  excluded: ReadonlyMap<string, Exclusion>
  fees: ReadonlyMap<string, ArbitrageFees>
}

/** Pairs found so far, in growing columns. */
interface Found {
  count: number
  profit: Float64Array
  askCell: Uint32Array
  bidCell: Uint32Array
}

/** One side as it is walked: what of it counts. */
interface Walk {
  side: BoardSide
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

const FIRST_PAIRS = 65_536

export function computeArbitrage(board: Board, terms: ArbitrageTerms, rowsMax = ARBITRAGE_ROWS_MAX): ArbitragePairs {
  const providers = [...new Set([...board.sides.ask.providers, ...board.sides.bid.providers])].sort()
  const ask = openWalk(board.sides.ask, providers, terms, fees => fees.buy)
  const bid = openWalk(board.sides.bid, providers, terms, fees => fees.sell)
  const found: Found = {
    count: 0,
    profit: new Float64Array(FIRST_PAIRS),
    askCell: new Uint32Array(FIRST_PAIRS),
    bidCell: new Uint32Array(FIRST_PAIRS),
  }
  const oldest = terms.asOf - ARBITRAGE_AGE_LIMIT_MS
  for (const slot of board.inOrder()) {
    countQuotes(ask, slot, board.partition(slot), oldest)
    countQuotes(bid, slot, board.partition(slot), oldest)
    pair(ask, bid, slot, found)
  }
  const order = byProfit(found.profit.subarray(0, found.count)).subarray(0, rowsMax)
  return {
    providers,
    columns: columnsOf(board, { ask, bid }, found, order, terms.asOf),
    excluded: { ask: excludedOf(ask, terms), bid: excludedOf(bid, terms) },
  }
}

function openWalk(
  side: BoardSide,
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

/** Finds the providers whose quotes of a slot count. */
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

function pair(ask: Walk, bid: Walk, slot: number, found: Found): void {
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
      if (profit > 0) keep(found, profit, cell, bidCell)
    }
  }
}

function keep(found: Found, profit: number, askCell: number, bidCell: number): void {
  const { count } = found
  if (count === found.profit.length) {
    const double = <T extends Float64Array | Uint32Array>(from: T, to: T): T => {
      to.set(from)
      return to
    }
    found.profit = double(found.profit, new Float64Array(count * 2))
    found.askCell = double(found.askCell, new Uint32Array(count * 2))
    found.bidCell = double(found.bidCell, new Uint32Array(count * 2))
  }
  found.profit[count] = profit
  found.askCell[count] = askCell
  found.bidCell[count] = bidCell
  found.count = count + 1
}

const DIGIT = 65_536

/**
 * The indexes of values by descending value; equal ones keep their order. Least significant digit
 * first over the bits of positive doubles, which order as the numbers do.
 */
function byProfit(values: Float64Array): Uint32Array {
  const count = values.length
  const words = new Uint16Array(values.buffer, values.byteOffset, count * 4)
  let order = new Uint32Array(count)
  for (let i = 0; i < count; i++) order[i] = i
  let other = new Uint32Array(count)
  const starts = new Uint32Array(DIGIT + 1)
  for (let word = 0; word < 4; word++) {
    starts.fill(0)
    for (let i = 0; i < count; i++) {
      const digit = DIGIT - 1 - (words[i * 4 + word] as number)
      starts[digit + 1] = (starts[digit + 1] as number) + 1
    }
    for (let digit = 0; digit < DIGIT; digit++)
      starts[digit + 1] = (starts[digit + 1] as number) + (starts[digit] as number)
    for (let i = 0; i < count; i++) {
      const pair = order[i] as number
      const digit = DIGIT - 1 - (words[pair * 4 + word] as number)
      const at = starts[digit] as number
      other[at] = pair
      starts[digit] = at + 1
    }
    ;[order, other] = [other, order]
  }
  return order
}

function columnsOf(
  board: Board,
  { ask, bid }: { ask: Walk; bid: Walk },
  found: Found,
  order: Uint32Array,
  asOf: Instant,
): ArbitrageColumns {
  const columns = arbitrageColumns(order.length)
  const [asks, bids] = [ask.side.providers.length, bid.side.providers.length]
  for (let row = 0; row < order.length; row++) {
    const pair = order[row] as number
    const [askCell, bidCell] = [found.askCell[pair] as number, found.bidCell[pair] as number]
    const slot = Math.floor(askCell / asks)
    const [p, q] = [askCell - slot * asks, bidCell - slot * bids]
    const partition = board.partition(slot)
    columns.itemId[row] = board.itemId(slot)
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

/** Why a provider's quotes do not count. */
export type Exclusion = 'down' | 'quarantined'

/** A provider and how often it is polled. */
interface PolledProvider {
  key: string
  refresh_interval_ms: number
}

/**
 * Provider → why its quotes do not count; those that count are left out. One that is down counts nowhere, one whose
 * refresh is quarantined not in arbitrage (DECISIONS.md, "Arbitrage" and "Market items").
 */
export function excludedProviders(
  providers: readonly PolledProvider[],
  health: ReadonlyMap<string, ProviderHealth>,
  asOf: Instant,
): Map<string, Exclusion> {
  const excluded = new Map<string, Exclusion>()
  for (const { key, refresh_interval_ms } of providers) {
    const known = health.get(key)
    if (isDown(refresh_interval_ms, known, asOf)) excluded.set(key, 'down')
    else if (known?.quarantined_reason) excluded.set(key, 'quarantined')
  }
  return excluded
}
