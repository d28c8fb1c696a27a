/**
 * One provider's asks or bids, and the refresh that is being staged beside them.
 *
 * Columns indexed by item id (ids are dense by construction): 36 bytes an item instead of 200 for a
 * map of objects, and staging an observation allocates nothing. URLs are in maps of their own, since most providers give none.
 * Invariant: a row is listed exactly when its price is above 0; a staged entry counts only when it carries the current epoch,
 * so a refresh is forgotten by raising it.
 */
import type { Side } from '#schemas/events/book-changed.ts'
import type { CatalogLookup } from '#schemas/values/catalog-item.ts'
import type { Rate } from '#schemas/values/money.ts'

export interface OpenRefresh {
  id: string
  observedAt: number
  currency: string
  /** The names by which all of it is resolved, whatever the catalog becomes meanwhile. */
  catalog: CatalogLookup
  firstOffset: number
  nextIndex: number
  hasGap: boolean
  unresolved: number
  rejected: number
  items: number
  /** Item → URL of the offer that is staged, where it has one. */
  urls: Map<number, string>
}

export interface Suspicion {
  /** That of the last one. */
  reason: string
  count: number
  /** When the first of them was observed. */
  since: number
}

export interface ProviderBook {
  readonly provider: string
  readonly side: Side
  /** Hundredths of `currency`; 0 where nothing is listed. */
  price: Float64Array
  microUsd: Float64Array
  quantity: Int32Array
  seenAt: Float64Array
  /** Item → URL of the offer that is listed, where it has one. */
  readonly urls: Map<number, string>
  stagedEpoch: Uint32Array
  stagedPrice: Float64Array
  stagedQuantity: Int32Array
  epoch: number
  currency: string
  listed: number
  open: OpenRefresh | undefined
  /** The last judged refresh. */
  lastRefreshId: string | null
  lastObservedAt: number
  /** Why the last judged refresh is quarantined; null when the book equals it. */
  suspicion: Suspicion | null
  /** When the last applied refresh was observed; null before the first. */
  lastAppliedAt: number | null
  /** The rate that was parsed last, and its text. */
  rateText: string
  rate: Rate | undefined
}

const FIRST_CAPACITY = 1024

export function emptyBook(provider: string, side: Side): ProviderBook {
  return {
    provider,
    side,
    price: new Float64Array(FIRST_CAPACITY),
    microUsd: new Float64Array(FIRST_CAPACITY),
    quantity: new Int32Array(FIRST_CAPACITY),
    seenAt: new Float64Array(FIRST_CAPACITY),
    urls: new Map(),
    stagedEpoch: new Uint32Array(FIRST_CAPACITY),
    stagedPrice: new Float64Array(FIRST_CAPACITY),
    stagedQuantity: new Int32Array(FIRST_CAPACITY),
    epoch: 1,
    currency: '',
    listed: 0,
    open: undefined,
    lastRefreshId: null,
    lastObservedAt: 0,
    suspicion: null,
    lastAppliedAt: null,
    rateText: '',
    rate: undefined,
  }
}

/** Makes room for an item id in every column. */
function reserve(book: ProviderBook, itemId: number): void {
  if (itemId < book.price.length) return
  const capacity = Math.max(book.price.length * 2, itemId + 1)
  const grown = <T extends Float64Array | Int32Array | Uint32Array>(larger: T, column: T): T => {
    larger.set(column)
    return larger
  }
  book.price = grown(new Float64Array(capacity), book.price)
  book.microUsd = grown(new Float64Array(capacity), book.microUsd)
  book.quantity = grown(new Int32Array(capacity), book.quantity)
  book.seenAt = grown(new Float64Array(capacity), book.seenAt)
  book.stagedEpoch = grown(new Uint32Array(capacity), book.stagedEpoch)
  book.stagedPrice = grown(new Float64Array(capacity), book.stagedPrice)
  book.stagedQuantity = grown(new Int32Array(capacity), book.stagedQuantity)
}

/** Sets or, with a price of 0, clears a row. */
export function setRow(
  book: ProviderBook,
  itemId: number,
  row: { price: number; microUsd: number; quantity: number; seenAt: number; url: string | null },
): void {
  reserve(book, itemId)
  const wasListed = (book.price[itemId] ?? 0) > 0
  const isListed = row.price > 0
  book.listed += Number(isListed) - Number(wasListed)
  book.price[itemId] = row.price
  book.microUsd[itemId] = row.microUsd
  book.quantity[itemId] = row.quantity
  book.seenAt[itemId] = row.seenAt
  setUrl(book, itemId, row.url)
}

/** Sets or, with null, clears the URL of a row, or of a staged offer. */
export function setUrl({ urls }: { urls: Map<number, string> }, itemId: number, url: string | null): void {
  if (url === null) urls.delete(itemId)
  else urls.set(itemId, url)
}

export function dropStaged(book: ProviderBook): void {
  book.open = undefined
  book.epoch += 1
}

const LARGEST_QUANTITY = 2 ** 31 - 1

/**
 * Stages an observation of the open refresh. An item seen twice keeps the better price (lower ask,
 * higher bid) with its URL; at an equal price the quantities add up and the first URL stays.
 */
export function stage(
  book: ProviderBook,
  open: OpenRefresh,
  itemId: number,
  seen: { price: number; quantity: number; url: string | null },
): void {
  reserve(book, itemId)
  if (book.stagedEpoch[itemId] !== book.epoch) {
    book.stagedEpoch[itemId] = book.epoch
    book.stagedPrice[itemId] = seen.price
    book.stagedQuantity[itemId] = seen.quantity
    open.items += 1
    if (seen.url !== null) open.urls.set(itemId, seen.url)
  } else {
    const staged = book.stagedPrice[itemId] ?? 0
    if (seen.price === staged) {
      book.stagedQuantity[itemId] = Math.min(LARGEST_QUANTITY, (book.stagedQuantity[itemId] ?? 0) + seen.quantity)
    } else if (book.side === 'ask' ? seen.price < staged : seen.price > staged) {
      book.stagedPrice[itemId] = seen.price
      book.stagedQuantity[itemId] = seen.quantity
      setUrl(open, itemId, seen.url)
    }
  }
}

export const isStaged = (book: ProviderBook, itemId: number): boolean => book.stagedEpoch[itemId] === book.epoch

/** `value` is in the book's currency, `valueUsd` in cents. */
export function totalsOf(book: ProviderBook): { items: number; offers: number; value: number; valueUsd: number } {
  let offers = 0
  let value = 0
  let micro = 0
  for (let itemId = 0; itemId < book.price.length; itemId++) {
    const price = book.price[itemId] ?? 0
    if (price <= 0) continue
    const quantity = book.quantity[itemId] ?? 0
    offers += quantity
    value += price * quantity
    micro += ((book.microUsd[itemId] ?? 0) / 10_000) * quantity
  }
  const whole = (amount: number): number => Math.min(Number.MAX_SAFE_INTEGER, Math.round(amount))
  return { items: book.listed, offers, value: whole(value), valueUsd: whole(micro) }
}
