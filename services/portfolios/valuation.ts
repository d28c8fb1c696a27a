/**
 * What holdings are worth now: the best live ask among providers, times the units.
 *
 * Rules: DECISIONS.md, "Valuation". Invariant: an item that no provider lists has null prices and counts as unpriced,
 * never as worth nothing; `bestAsk` is the least `lowest_ask` of its line, and the total is the exact sum of the lines.
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

/** What is to be valued. */
export interface Holding {
  itemId: number
  quantity: number
}

/** A provider's quote in the currency of the answer. */
export interface PricedQuote {
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
export interface Valued {
  lines: ValuedLine[]
  total: bigint
  itemsValued: number
}

/** The currency of an answer and its rate. */
export interface InCurrency {
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
function priced({ provider, price, currency, priceMicroUsd, quantity }: Quote, wanted: InCurrency): PricedQuote {
  const amount = currency === wanted.code ? BigInt(price) : BigInt(minorDigits(priceMicroUsd, wanted.rate))
  return { provider, amount, quantity }
}

function extreme(quotes: readonly PricedQuote[], isBetter: (one: bigint, other: bigint) => boolean): bigint | null {
  let best: bigint | null = null
  for (const { amount } of quotes) if (best === null || isBetter(amount, best)) best = amount
  return best
}
