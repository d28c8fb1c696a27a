/**
 * The best ask and bid of every item of a partition, from all providers' current rows.
 *
 * A row is one number: its price in micro-dollars at the refresh's own rate. Invariant: the best prices are always those of the
 * rows (lowest ask, highest bid, of equal ones the lowest provider key), and a change costs at most as much as an item has
 * providers, however many items there are.
 */
import type { Side } from '#schemas/events/book-changed.ts'

/** The best prices of an item and whose they are. */
export interface Best {
  ask: number | undefined
  askProvider: string | undefined
  bid: number | undefined
  bidProvider: string | undefined
}

export interface ItemBook {
  /** Sets a provider's row, or removes it with null; the best prices before, where they are others now. */
  set(side: Side, itemId: number, provider: string, micro: number | null): Best | undefined
  best(itemId: number): Best
}

const NONE = -1

export function openItemBook(): ItemBook {
  const keys: string[] = []
  const numbers = new Map<string, number>()
  /** Price by the provider's number; NONE without a row. */
  const items = new Map<number, Record<Side, number[]>>()

  const numberOf = (provider: string): number => {
    const known = numbers.get(provider)
    if (known !== undefined) return known
    const number = keys.push(provider) - 1
    numbers.set(provider, number)
    return number
  }
  const bestOf = (
    side: Side,
    prices: readonly number[],
  ): { price: number | undefined; provider: string | undefined } => {
    let [best, holder] = [NONE, '']
    for (let number = 0; number < prices.length; number++) {
      const price = prices[number] as number
      if (price === NONE) continue
      const key = keys[number] as string
      const isBetter = price === best ? key < holder : side === 'ask' ? price < best : price > best
      if (best !== NONE && !isBetter) continue
      best = price
      holder = key
    }
    return best === NONE ? { price: undefined, provider: undefined } : { price: best, provider: holder }
  }
  const asBest = (ask: ReturnType<typeof bestOf>, bid: ReturnType<typeof bestOf>): Best => ({
    ask: ask.price,
    askProvider: ask.provider,
    bid: bid.price,
    bidProvider: bid.provider,
  })
  return {
    set(side, itemId, provider, micro) {
      const item = items.get(itemId) ?? { ask: [], bid: [] }
      items.set(itemId, item)
      const prices = item[side]
      const number = numberOf(provider)
      const before = bestOf(side, prices)
      while (prices.length <= number) prices.push(NONE)
      prices[number] = micro ?? NONE
      const now = bestOf(side, prices)
      if (now.price === before.price && now.provider === before.provider) return undefined
      return side === 'ask' ? asBest(before, bestOf('bid', item.bid)) : asBest(bestOf('ask', item.ask), before)
    },
    best(itemId) {
      const { ask, bid } = items.get(itemId) ?? { ask: [], bid: [] }
      return asBest(bestOf('ask', ask), bestOf('bid', bid))
    },
  }
}
