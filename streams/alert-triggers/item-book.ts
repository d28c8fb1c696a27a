/**
 * The best ask and bid of every item of a partition, from all providers' current rows.
 *
 * A row is one number: its price in micro-dollars at the refresh's own rate. Invariant: the best prices are always those of the
 * rows (lowest ask, highest bid, of equal ones the lowest provider key), and a change costs at most as much as an item has
 * providers, however many items there are.
 */
import type { Side } from '#schemas/events/book-changed.ts'

export interface Best {
  ask: number | undefined
  askProvider: string | undefined
  bid: number | undefined
  bidProvider: string | undefined
}

export type ItemBook = ReturnType<typeof openItemBook>

const NONE = -1

export function openItemBook() {
  const keys: string[] = []
  /** Price by the provider's number; NONE without a row. */
  const items = new Map<number, Record<Side, number[]>>()

  const numberOf = (provider: string): number => {
    const number = keys.indexOf(provider)
    return number >= 0 ? number : keys.push(provider) - 1
  }
  const bestOf = (side: Side, prices: readonly number[]): { price?: number; holder?: string } => {
    let best: { price?: number; holder?: string } = {}
    for (let number = 0; number < prices.length; number++) {
      const price = prices[number] as number
      if (price === NONE) continue
      const { price: other = side === 'ask' ? Number.POSITIVE_INFINITY : NONE, holder: otherHolder = '' } = best
      const holder = keys[number] as string
      if (price === other ? holder < otherHolder : side === 'ask' ? price < other : price > other)
        best = { price, holder }
    }
    return best
  }
  const best = (itemId: number): Best => {
    const item = items.get(itemId)
    const [ask, bid] = [bestOf('ask', item?.ask ?? []), bestOf('bid', item?.bid ?? [])]
    return { ask: ask.price, askProvider: ask.holder, bid: bid.price, bidProvider: bid.holder }
  }
  return {
    best,
    /** Sets a provider's row, or removes it with null; the best prices before, where they are others now. */
    set(side: Side, itemId: number, provider: string, micro: number | null): Best | undefined {
      const before = best(itemId)
      const item = items.get(itemId) ?? { ask: [], bid: [] }
      items.set(itemId, item)
      const number = numberOf(provider)
      while (item[side].length <= number) item[side].push(NONE)
      item[side][number] = micro ?? NONE
      const now = best(itemId)
      const isSameAsk = now.ask === before.ask && now.askProvider === before.askProvider
      return isSameAsk && now.bid === before.bid && now.bidProvider === before.bidProvider ? undefined : before
    },
  }
}
