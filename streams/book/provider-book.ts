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

export type OpenRefresh = ReturnType<typeof newRefresh>

export const newRefresh = (id: string, currency: string, catalog: CatalogLookup, firstOffset: number) => ({
  id,
  currency,
  firstOffset,
  /** The names by which all of it is resolved, whatever the catalog becomes meanwhile. */
  catalog,
  nextIndex: 1,
  hasGap: false,
  unresolved: 0,
  rejected: 0,
  items: 0,
  /** Item → URL of the offer that is staged, where it has one. */
  urls: new Map<number, string>(),
})

export interface Suspicion {
  /** That of the last one. */
  reason: string
  count: number
  /** When the first of them was observed. */
  since: number
}

export interface ProviderBook extends ReturnType<typeof emptyColumns> {
  readonly provider: string
  readonly side: Side
  /** Item → URL of the offer that is listed, where it has one. */
  readonly urls: Map<number, string>
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
}

const emptyColumns = (capacity: number) => ({
  /** Hundredths of the book's currency; 0 where nothing is listed. */
  price: new Float64Array(capacity),
  microUsd: new Float64Array(capacity),
  quantity: new Int32Array(capacity),
  seenAt: new Float64Array(capacity),
  stagedEpoch: new Uint32Array(capacity),
  stagedPrice: new Float64Array(capacity),
  stagedQuantity: new Int32Array(capacity),
})

const FIRST_CAPACITY = 1024

export const emptyBook = (provider: string, side: Side): ProviderBook => ({
  ...emptyColumns(FIRST_CAPACITY),
  provider,
  side,
  urls: new Map(),
  epoch: 1,
  currency: '',
  listed: 0,
  open: undefined,
  lastRefreshId: null,
  lastObservedAt: 0,
  suspicion: null,
  lastAppliedAt: null,
})

function reserve(book: ProviderBook, itemId: number): void {
  if (itemId < book.price.length) return
  const columns = emptyColumns(Math.max(book.price.length * 2, itemId + 1))
  for (const [name, column] of Object.entries(columns)) column.set(book[name as keyof typeof columns])
  Object.assign(book, columns)
}

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
