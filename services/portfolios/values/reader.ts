/**
 * The worth of holdings: now by the best live ask among providers, and at the end of each day by its best close.
 *
 * Pure. Rules: DECISIONS.md, "Valuation". Invariant: an item without any price counts as unpriced, never as worth nothing, and
 * a total is the exact sum of its lines. Days are numbers of days since 1970. A provider's close is current until its next
 * one, or until the end of the day on which it withdrew the item; a day's price is the least close (in micro-dollars; of equal
 * ones that of the first series) that is current on it, and where none is, the latest one that was.
 */
import type { AnswerCurrency } from '#schemas/api/entry-text.ts'
import { type MicroUsd, type Minor, minorDigits } from '#schemas/values/money.ts'

export interface Quote {
  itemId: number
  provider: string
  price: Minor
  currency: string
  priceMicroUsd: MicroUsd
  quantity: number
}

export interface Holding {
  itemId: number
  quantity: number
}

export interface ValuedLine extends Holding {
  bestAsk: bigint | null
  bestBid: bigint | null
  value: bigint | null
  /** By provider key, in the currency of the answer. */
  asks: ReturnType<typeof priced>[]
}

/** Values each holding, in the order given; quotes of an item are in the order of their providers' keys. */
export function valueHoldings(
  holdings: readonly Holding[],
  quotes: { asks: readonly Quote[]; bids: readonly Quote[] },
  currency: AnswerCurrency,
) {
  const asksOf = Map.groupBy(quotes.asks, quote => quote.itemId)
  const bidsOf = Map.groupBy(quotes.bids, quote => quote.itemId)
  const lines = holdings.map(({ itemId, quantity }): ValuedLine => {
    const asks = (asksOf.get(itemId) ?? []).map(quote => priced(quote, currency))
    const bids = (bidsOf.get(itemId) ?? []).map(quote => priced(quote, currency))
    const bestAsk = extreme(asks, (amount, best) => amount < best)
    const bestBid = extreme(bids, (amount, best) => amount > best)
    return { itemId, quantity, bestAsk, bestBid, value: bestAsk === null ? null : bestAsk * BigInt(quantity), asks }
  })
  return {
    lines,
    total: lines.reduce((sum, { value }) => sum + (value ?? 0n), 0n),
    itemsValued: lines.filter(({ value }) => value !== null).length,
  }
}

/** A quote in its own currency shows the price that its provider sent. */
function priced({ provider, price, currency, priceMicroUsd, quantity }: Quote, answer: AnswerCurrency) {
  const amount = currency === answer.code ? BigInt(price) : BigInt(minorDigits(priceMicroUsd, answer.rate))
  return { provider, amount, quantity }
}

const extreme = (
  quotes: readonly { amount: bigint }[],
  isBetter: (amount: bigint, best: bigint) => boolean,
): bigint | null =>
  quotes.reduce<bigint | null>((best, { amount }) => (best === null || isBetter(amount, best) ? amount : best), null)

/** A provider's closes of an item, by ascending day. */
export interface CloseSeries {
  days: readonly number[]
  /** Micro-dollars; -1 on a day that set no price: the close before it counts. */
  micros: readonly number[]
  /** Hundredths of the currency that is asked for, where the close was in it; else -1. Empty: none was. */
  natives: readonly number[]
  /** Still listed at the end of the day. Empty: on all of them. */
  listed: readonly (boolean | 0 | 1)[]
}

/** Units gained or lost by an item on a day. */
export interface DayMovement {
  day: number
  units: number
}

/** The days of a window, one element each. */
export type DailyValues = ReturnType<typeof noValues>

/** Hundredths of the currency that a close is worth on a day. */
export type AmountOn = (micro: number, native: number, day: number) => number

export function noValues(firstDay: number, lastDay: number) {
  const days = Math.max(0, lastDay - firstDay + 1)
  return {
    firstDay,
    /** Hundredths of the currency. */
    totals: new Float64Array(days),
    /** Items that were held. */
    positions: new Int32Array(days),
    /** Held items that had a price. */
    valued: new Int32Array(days),
  }
}

/** Adds one item: what was held of it, by ascending day, priced by its providers' closes. */
export function addItem(
  into: DailyValues,
  movements: readonly DayMovement[],
  series: readonly CloseSeries[],
  amountOn: AmountOn,
): void {
  const { firstDay, totals, positions, valued } = into
  const { micros, natives } = bestByDay(series, firstDay, totals.length)
  let [next, quantity] = [0, 0]
  for (let i = 0; i < totals.length; i++) {
    for (; next < movements.length && (movements[next] as DayMovement).day <= firstDay + i; next++)
      quantity += (movements[next] as DayMovement).units
    if (quantity === 0) continue
    positions[i] = (positions[i] as number) + 1
    const micro = micros[i] as number
    if (micro === Number.POSITIVE_INFINITY) continue
    valued[i] = (valued[i] as number) + 1
    totals[i] = (totals[i] as number) + quantity * amountOn(micro, natives[i] as number, firstDay + i)
  }
}

/** The price of each day; infinite where there is none yet. */
function bestByDay(series: readonly CloseSeries[], firstDay: number, days: number) {
  const micros = new Float64Array(days).fill(Number.POSITIVE_INFINITY)
  const natives = new Float64Array(days).fill(-1)
  /** The last price that was current before the window, and the day after it. */
  let earlier = { end: Number.NEGATIVE_INFINITY, micro: Number.POSITIVE_INFINITY, native: -1 }
  for (const one of series) {
    let micro = -1
    let native = -1
    one.days.forEach((day, i) => {
      if ((one.micros[i] as number) >= 0) {
        micro = one.micros[i] as number
        native = one.natives[i] ?? -1
      }
      if (micro < 0) return
      const isListed = one.listed.length === 0 || one.listed[i]
      const end = (isListed ? (one.days[i + 1] ?? firstDay + days) : day + 1) - firstDay
      const isLater = end > earlier.end || (end === earlier.end && micro < earlier.micro)
      if (end <= 0 && isLater) earlier = { end, micro, native }
      for (let at = Math.max(day - firstDay, 0); at < Math.min(end, days); at++) {
        if (micro >= (micros[at] as number)) continue
        micros[at] = micro
        natives[at] = native
      }
    })
  }
  for (let at = 0; at < days && micros[at] === Number.POSITIVE_INFINITY; at++) {
    micros[at] = earlier.micro
    natives[at] = earlier.native
  }
  for (let at = 1; at < days; at++) {
    if (micros[at] !== Number.POSITIVE_INFINITY) continue
    micros[at] = micros[at - 1] as number
    natives[at] = natives[at - 1] as number
  }
  return { micros, natives }
}
