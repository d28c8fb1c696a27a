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

interface SideRows {
  /** Price by the provider's number; NONE without a row. */
  prices: number[]
  best: number
  /** Number of the provider that the best price belongs to. */
  holder: number
}

interface ItemRows {
  ask: SideRows
  bid: SideRows
}

const NONE = -1

const emptySide = (): SideRows => ({ prices: [], best: NONE, holder: NONE })

export function openItemBook(): ItemBook {
  const keys: string[] = []
  const numbers = new Map<string, number>()
  const items = new Map<number, ItemRows>()

  const numberOf = (provider: string): number => {
    let number = numbers.get(provider)
    if (number === undefined) {
      number = keys.push(provider) - 1
      numbers.set(provider, number)
    }
    return number
  }
  const isBetter = (side: Side, rows: SideRows, price: number, provider: number): boolean => {
    if (rows.best === NONE) return true
    if (price === rows.best) return (keys[provider] ?? '') < (keys[rows.holder] ?? '')
    return side === 'ask' ? price < rows.best : price > rows.best
  }
  const findBest = (side: Side, rows: SideRows): void => {
    rows.best = NONE
    rows.holder = NONE
    for (const [provider, price] of rows.prices.entries()) {
      if (price === NONE || !isBetter(side, rows, price, provider)) continue
      rows.best = price
      rows.holder = provider
    }
  }
  const bestOf = (item: ItemRows | undefined): Best => ({
    ask: item && item.ask.best !== NONE ? item.ask.best : undefined,
    askProvider: item && keys[item.ask.holder],
    bid: item && item.bid.best !== NONE ? item.bid.best : undefined,
    bidProvider: item && keys[item.bid.holder],
  })
  return {
    set(side, itemId, provider, micro) {
      let item = items.get(itemId)
      if (item === undefined) {
        item = { ask: emptySide(), bid: emptySide() }
        items.set(itemId, item)
      }
      const rows = item[side]
      const number = numberOf(provider)
      while (rows.prices.length <= number) rows.prices.push(NONE)
      const price = micro ?? NONE
      const { best, holder } = rows
      rows.prices[number] = price
      if (price !== NONE && isBetter(side, rows, price, number)) {
        rows.best = price
        rows.holder = number
      } else if (number === holder && price !== best) findBest(side, rows)
      if (rows.best === best && rows.holder === holder) return undefined
      return { ...bestOf(item), ...previousOf(side, best, keys[holder]) }
    },
    best: itemId => bestOf(items.get(itemId)),
  }
}

function previousOf(side: Side, best: number, provider: string | undefined): Partial<Best> {
  const price = best === NONE ? undefined : best
  return side === 'ask' ? { ask: price, askProvider: provider } : { bid: price, bidProvider: provider }
}
