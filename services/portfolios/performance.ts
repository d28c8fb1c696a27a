/**
 * What a ledger has earned: first in, first out.
 *
 * Pure. All amounts are whole hundredths of one currency; each transaction is converted once, as a whole, at the
 * rates of its own day. A unit's basis is its price and its share of the buy's fees; a sell takes the oldest units first,
 * and the basis of a part of a lot is rounded so that the parts always add up to the lot. Invariant: realised +
 * unrealised profit = sold + market value - bought - fees, to the last hundredth.
 */
import { crossMinor, parseRate, type Rate, shareOf } from '#schemas/values/money.ts'
import type { Direction } from './ledger.ts'

/** A transaction, as far as it is about money. */
export interface Trade {
  itemId: number
  type: Direction
  quantity: number
  /** Hundredths of `currency`, of one unit. */
  price: number
  currency: string
  /** YYYY-MM-DD. */
  date: string
  feeAmount: number | null
  /** Percent of price x quantity; comes on top of `feeAmount`. */
  feePercentage: number | null
}

/** What the transactions of an item have come to. */
export interface ItemPerformance {
  itemId: number
  /** Units that are still there. */
  quantity: number
  /** Price x quantity of all buys, without fees. */
  bought: bigint
  /** Price x quantity of all sells, without fees. */
  sold: bigint
  /** Fees of buys and sells. */
  fees: bigint
  /** What the units that are still there have cost, fees included. */
  costBasis: bigint
  /** Of the units that were sold: proceeds less fees and basis. */
  realisedProfit: bigint
}

/** The rate of a currency on a day. */
export type RateOn = (currency: string, date: string) => Rate

/** Units bought together. */
interface Lot {
  quantity: bigint
  taken: bigint
  basis: bigint
}

/** The fee of a transaction in hundredths of its own currency: the amount, and the percentage of its total. */
export function feeOf({ price, quantity, feeAmount, feePercentage }: Omit<Trade, 'itemId' | 'type' | 'date'>): bigint {
  const percent = feePercentage === null ? undefined : parseRate(String(feePercentage))
  const total = BigInt(price) * BigInt(quantity)
  const share = percent ? shareOf(total, percent.numerator, 100n * percent.denominator) : 0n
  return BigInt(feeAmount ?? 0) + share
}

/** Computes what each item has earned, by ascending id; `trades` are in the order in which they were entered. */
export function performanceOf(trades: readonly Trade[], currency: string, rateOn: RateOn): ItemPerformance[] {
  return [...Map.groupBy(trades, trade => trade.itemId)]
    .sort(([a], [b]) => a - b)
    .map(([itemId, ofItem]) => performanceOfItem(itemId, ofItem, currency, rateOn))
}

function performanceOfItem(
  itemId: number,
  trades: readonly Trade[],
  currency: string,
  rateOn: RateOn,
): ItemPerformance {
  const lots: Lot[] = []
  let oldest = 0
  const sum = { bought: 0n, sold: 0n, fees: 0n, realisedProfit: 0n }
  for (const trade of inLedgerOrder(trades)) {
    const into = (amount: bigint): bigint =>
      trade.currency === currency
        ? amount
        : crossMinor(amount, rateOn(trade.currency, trade.date), rateOn(currency, trade.date))
    const total = into(BigInt(trade.price) * BigInt(trade.quantity))
    const fee = into(feeOf(trade))
    sum.fees += fee
    if (trade.type === 'buy') {
      sum.bought += total
      lots.push({ quantity: BigInt(trade.quantity), taken: 0n, basis: total + fee })
      continue
    }
    sum.sold += total
    sum.realisedProfit += total - fee
    let wanted = BigInt(trade.quantity)
    while (wanted > 0n) {
      const lot = lots[oldest]
      if (!lot) throw new Error(`the ledger of item ${itemId} sells more than it holds on ${trade.date}`)
      const left = lot.quantity - lot.taken
      const take = wanted < left ? wanted : left
      sum.realisedProfit -= takeFrom(lot, take)
      wanted -= take
      if (lot.taken === lot.quantity) oldest += 1
    }
  }
  const open = lots.slice(oldest)
  return {
    itemId,
    ...sum,
    quantity: Number(open.reduce((units, lot) => units + lot.quantity - lot.taken, 0n)),
    costBasis: open.reduce((basis, lot) => basis + lot.basis - basisOf(lot, lot.taken), 0n),
  }
}

/** Buys of a day come before its sells, as in the ledger's rules; among themselves they stay as entered. */
function inLedgerOrder(trades: readonly Trade[]): Trade[] {
  const rank = ({ type }: Trade): number => (type === 'buy' ? 0 : 1)
  return [...trades].sort((a, b) => (a.date === b.date ? rank(a) - rank(b) : a.date < b.date ? -1 : 1))
}

const basisOf = (lot: Lot, units: bigint): bigint => shareOf(lot.basis, units, lot.quantity)

/** Takes units of a lot and returns their basis. */
function takeFrom(lot: Lot, units: bigint): bigint {
  const before = basisOf(lot, lot.taken)
  lot.taken += units
  return basisOf(lot, lot.taken) - before
}
