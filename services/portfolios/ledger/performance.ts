/**
 * The earnings of a ledger: first in, first out.
 *
 * Pure; trades come in slices, in the order of items, days, buys before sells and entry. All amounts are whole hundredths of one
 * currency; each transaction is converted once, as a whole, at the rates of its own day. A unit's basis is its price and its share
 * of the buy's fees; a sell is of the oldest units first, and the basis of a part of a lot is rounded so that the parts always add
 * up to the lot. Invariant: realised + unrealised profit = sold + market value - bought - fees, to the last hundredth.
 */
import type { z } from 'zod'
import type { transactionReply } from '#schemas/api/transactions.ts'
import { crossMinor, parseRate, type Rate, shareOf } from '#schemas/values/money.ts'

/** A transaction, as far as it is about money: `fee_percentage`, of price x quantity, comes on top of `fee_amount`. */
export type Trade = Pick<
  z.infer<typeof transactionReply>,
  'item_id' | 'type' | 'quantity' | 'price' | 'currency' | 'date' | 'fee_amount' | 'fee_percentage'
>

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
  /** Cost of the units that are still there, fees included. */
  costBasis: bigint
  /** Of the units that were sold: proceeds less fees and basis. */
  realisedProfit: bigint
}

export type RateOn = (currency: string, date: string) => Rate

interface Lot {
  quantity: bigint
  sold: bigint
  basis: bigint
}

/** The lots of the item that is folded, of which those before `oldest` are sold. */
interface OpenItem {
  sum: ItemPerformance
  units: bigint
  lots: Lot[]
  oldest: number
}

/** Trades and lots between two pauses: about two milliseconds. */
const STEPS = 500

export function openPerformanceFold(currency: string, rateOn: RateOn) {
  const items: ItemPerformance[] = []
  let open: OpenItem | undefined
  let steps = 0
  const itemOf = (itemId: number): OpenItem => {
    if (open?.sum.itemId === itemId) return open
    const sum = { itemId, quantity: 0, bought: 0n, sold: 0n, fees: 0n, costBasis: 0n, realisedProfit: 0n }
    items.push(sum)
    return { sum, units: 0n, lots: [], oldest: 0 }
  }
  return {
    /** By ascending id, of the trades that were added. */
    items: items as readonly ItemPerformance[],
    /** Adds the trades that come next; yields every so often, so that its caller can let others go on. */
    *add(trades: Iterable<Trade>): Generator<void, void, void> {
      for (const trade of trades) {
        open = itemOf(trade.item_id)
        for (const _ of addTrade(open, trade, { currency, rateOn })) {
          steps += 1
          if (steps % STEPS === 0) yield
        }
        open.sum.quantity = Number(open.units)
      }
    },
  }
}

/** Adds a trade to its item; yields once, and once for every lot of a sell. */
function* addTrade(
  item: OpenItem,
  trade: Trade,
  { currency, rateOn }: { currency: string; rateOn: RateOn },
): Generator<void, void, void> {
  const { sum, lots } = item
  const into = (amount: bigint): bigint =>
    trade.currency === currency
      ? amount
      : crossMinor(amount, rateOn(trade.currency, trade.date), rateOn(currency, trade.date))
  const total = into(BigInt(trade.price) * BigInt(trade.quantity))
  const fee = into(feeOf(trade))
  const quantity = BigInt(trade.quantity)
  sum.fees += fee
  yield
  if (trade.type === 'buy') {
    sum.bought += total
    sum.costBasis += total + fee
    item.units += quantity
    lots.push({ quantity, sold: 0n, basis: total + fee })
    return
  }
  sum.sold += total
  sum.realisedProfit += total - fee
  item.units -= quantity
  for (let rest = quantity; rest > 0n; ) {
    const lot = lots[item.oldest]
    if (!lot) throw new Error(`the ledger of item ${sum.itemId} sells more than it holds on ${trade.date}`)
    const left = lot.quantity - lot.sold
    const units = rest < left ? rest : left
    const before = basisOf(lot)
    lot.sold += units
    const basis = basisOf(lot) - before
    sum.realisedProfit -= basis
    sum.costBasis -= basis
    rest -= units
    if (lot.sold === lot.quantity) item.oldest += 1
    yield
  }
}

/** The fee of a transaction in hundredths of its own currency: the amount, and the percentage of its total. */
function feeOf({ price, quantity, fee_amount, fee_percentage }: Trade): bigint {
  const percent = fee_percentage === null ? undefined : parseRate(String(fee_percentage))
  const total = BigInt(price) * BigInt(quantity)
  const share = percent ? shareOf(total, percent.numerator, 100n * percent.denominator) : 0n
  return BigInt(fee_amount ?? 0) + share
}

/** The basis of the units of a lot that are sold. */
const basisOf = (lot: Lot): bigint => shareOf(lot.basis, lot.sold, lot.quantity)
