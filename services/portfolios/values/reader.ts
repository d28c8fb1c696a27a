/**
 * What holdings are worth: now by the best live ask among providers, and at the end of each day by its best close.
 *
 * Pure. Rules: DECISIONS.md, "Valuation". Invariant: an item without any price counts as unpriced, never as worth nothing, and
 * a total is the exact sum of its lines. Days are numbers of days since 1970. A provider's close is current until its next
 * one, or until the end of the day on which it withdrew the item; a day's price is the least close (in micro-dollars; of equal
 * ones that of the first series) that is current on it, and where none is, the latest one that was.
 */
import { type MicroUsd, type Minor, minorDigits, type Rate } from '#schemas/values/money.ts'

/** A live ask or bid. */
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

/** A provider's quote in the currency of the answer. */
interface PricedQuote {
  provider: string
  amount: bigint
  quantity: number
}

/** A holding and its worth. */
export interface ValuedLine extends Holding {
  bestAsk: bigint | null
  bestBid: bigint | null
  value: bigint | null
  /** By provider key. */
  asks: PricedQuote[]
}

/** Holdings and their worth. */
interface Valued {
  lines: ValuedLine[]
  total: bigint
  itemsValued: number
}

/** The currency of an answer and its rate. */
interface InCurrency {
  code: string
  rate: Rate
}

/** Values each holding, in the order given; quotes of an item are in the order of their providers' keys. */
export function valueHoldings(
  holdings: readonly Holding[],
  quotes: { asks: readonly Quote[]; bids: readonly Quote[] },
  currency: InCurrency,
): Valued {
  const asksOf = Map.groupBy(quotes.asks, quote => quote.itemId)
  const bidsOf = Map.groupBy(quotes.bids, quote => quote.itemId)
  const lines = holdings.map(({ itemId, quantity }): ValuedLine => {
    const asks = (asksOf.get(itemId) ?? []).map(quote => priced(quote, currency))
    const bids = (bidsOf.get(itemId) ?? []).map(quote => priced(quote, currency))
    const bestAsk = extreme(asks, (one, other) => one < other)
    const bestBid = extreme(bids, (one, other) => one > other)
    return { itemId, quantity, bestAsk, bestBid, value: bestAsk === null ? null : bestAsk * BigInt(quantity), asks }
  })
  return {
    lines,
    total: lines.reduce((sum, { value }) => sum + (value ?? 0n), 0n),
    itemsValued: lines.filter(({ value }) => value !== null).length,
  }
}

/** A quote in its own currency shows the price that its provider sent. */
function priced({ provider, price, currency, priceMicroUsd, quantity }: Quote, answer: InCurrency): PricedQuote {
  const amount = currency === answer.code ? BigInt(price) : BigInt(minorDigits(priceMicroUsd, answer.rate))
  return { provider, amount, quantity }
}

function extreme(quotes: readonly PricedQuote[], isBetter: (one: bigint, other: bigint) => boolean): bigint | null {
  let best: bigint | null = null
  for (const { amount } of quotes) if (best === null || isBetter(amount, best)) best = amount
  return best
}

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
export interface DailyValues {
  firstDay: number
  /** Hundredths of the currency. */
  totals: Float64Array
  /** Items that were held. */
  positions: Int32Array
  /** Held items that had a price. */
  valued: Int32Array
}

/** Hundredths of the currency that a close is worth on a day. */
export type AmountOn = (micro: number, native: number, day: number) => number

/** Makes the values of no holdings. */
export function noValues(firstDay: number, lastDay: number): DailyValues {
  const days = Math.max(0, lastDay - firstDay + 1)
  return {
    firstDay,
    totals: new Float64Array(days),
    positions: new Int32Array(days),
    valued: new Int32Array(days),
  }
}

/** Adds one item: what was held of it, priced by its providers' closes. Days before the first movement hold none. */
export function addItem(
  into: DailyValues,
  movements: readonly DayMovement[],
  series: readonly CloseSeries[],
  amountOn: AmountOn,
): void {
  const { firstDay, totals, positions, valued } = into
  const units = unitsByDay(movements, firstDay, totals.length)
  const { micros, natives } = bestByDay(series, firstDay, totals.length)
  for (let i = 0; i < totals.length; i++) {
    const quantity = units[i] as number
    if (quantity === 0) continue
    positions[i] = (positions[i] as number) + 1
    const micro = micros[i] as number
    if (micro === Number.POSITIVE_INFINITY) continue
    valued[i] = (valued[i] as number) + 1
    totals[i] = (totals[i] as number) + quantity * amountOn(micro, natives[i] as number, firstDay + i)
  }
}

/** Units at the end of each day. */
function unitsByDay(movements: readonly DayMovement[], firstDay: number, days: number): Float64Array {
  const units = new Float64Array(days)
  let before = 0
  for (const { day, units: change } of movements) {
    if (day < firstDay) before += change
    else if (day - firstDay < days) units[day - firstDay] = (units[day - firstDay] as number) + change
  }
  for (let i = 0; i < days; i++) {
    before += units[i] as number
    units[i] = before
  }
  return units
}

interface Best {
  micros: Float64Array
  natives: Float64Array
}

/** The last price that was current before the window. */
interface Earlier {
  day: number
  micro: number
  native: number
}

/** The price of each day; infinite where there is none yet. */
function bestByDay(series: readonly CloseSeries[], firstDay: number, days: number): Best {
  const best: Best = {
    micros: new Float64Array(days).fill(Number.POSITIVE_INFINITY),
    natives: new Float64Array(days).fill(-1),
  }
  const earlier: Earlier = { day: Number.NEGATIVE_INFINITY, micro: Number.POSITIVE_INFINITY, native: -1 }
  for (const one of series) {
    let micro = -1
    let native = -1
    one.days.forEach((day, i) => {
      if ((one.micros[i] as number) >= 0) {
        micro = one.micros[i] as number
        native = one.natives[i] ?? -1
      }
      if (micro < 0) return
      const nextDay = one.days[i + 1] ?? firstDay + days
      const lastDay = one.listed.length === 0 || one.listed[i] ? nextDay - 1 : day
      lower(best, micro, native, day - firstDay, lastDay - firstDay)
      if (lastDay < firstDay) keepEarlier(earlier, lastDay, micro, native)
    })
  }
  carry(best, earlier)
  return best
}

/** Sets a price from one day to another, where it is the best. */
function lower({ micros, natives }: Best, micro: number, native: number, from: number, to: number): void {
  const end = Math.min(to, micros.length - 1)
  for (let i = Math.max(from, 0); i <= end; i++) {
    if (micro >= (micros[i] as number)) continue
    micros[i] = micro
    natives[i] = native
  }
}

function keepEarlier(earlier: Earlier, day: number, micro: number, native: number): void {
  if (day < earlier.day || (day === earlier.day && micro >= earlier.micro)) return
  Object.assign(earlier, { day, micro, native })
}

function carry({ micros, natives }: Best, earlier: Earlier): void {
  let { micro, native } = earlier
  for (let i = 0; i < micros.length; i++) {
    if (micros[i] === Number.POSITIVE_INFINITY) {
      micros[i] = micro
      natives[i] = native
    } else {
      micro = micros[i] as number
      native = natives[i] as number
    }
  }
}
