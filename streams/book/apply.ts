/**
 * Makes the book equal a judged refresh, or takes a pushed observation, and returns what changed.
 *
 * Invariant: changes come in ascending item id, one per item, and after the last of them the book lists exactly what was staged.
 * `updated` means that the native price or the quantity changed; a moved exchange rate alone changes nothing, and another URL
 * alone is no change but an event of its own.
 */
import type { BookChanged, OfferUrlChanged } from '#schemas/events/book-changed.ts'
import type { RefreshCompleted } from '#schemas/events/observation.ts'
import { type Rate, toMicroUsd } from '#schemas/values/money.ts'
import type { StreamRecord } from '#streams/runner/outcome.ts'
import { isStaged, type ProviderBook, setRow, setUrl } from './provider-book.ts'

export type ChangeSource = Pick<StreamRecord, 'partition' | 'offset' | 'appendedAt'>

/** Shared by all changes of one refresh, or of one observation that was pushed. */
interface Occasion {
  currency: string
  rate: Rate
  seenAt: number
  refreshId?: string
  source: ChangeSource
}

export interface RowChanges {
  changes: BookChanged[]
  urlChanges: OfferUrlChanged[]
}

/** Applies the staged refresh, which the caller then drops, and returns its changes. Throws RangeError when an amount is beyond 2^53 micro-dollars. */
export function applyRefresh(
  book: ProviderBook,
  completed: RefreshCompleted,
  rate: Rate,
  source: ChangeSource,
): RowChanges {
  const { currency, observed_at: seenAt, refresh_id: refreshId } = completed
  const occasion: Occasion = { currency, rate, seenAt, refreshId, source }
  const hasOtherCurrency = book.currency !== currency
  const urls = book.open?.urls
  const hasUrls = book.urls.size + (urls?.size ?? 0) > 0
  const withOtherUrl: number[] = []
  const planned: { itemId: number; price: number; microUsd: number; quantity: number }[] = []
  for (let itemId = 0; itemId < book.price.length; itemId++) {
    const price = book.price[itemId] ?? 0
    if (!isStaged(book, itemId)) {
      if (price > 0) planned.push({ itemId, price: 0, microUsd: 0, quantity: 0 })
      continue
    }
    const staged = book.stagedPrice[itemId] ?? 0
    const quantity = book.stagedQuantity[itemId] ?? 0
    if (staged === price && quantity === book.quantity[itemId] && !hasOtherCurrency) {
      if (hasUrls && urls?.get(itemId) !== book.urls.get(itemId)) withOtherUrl.push(itemId)
      continue
    }
    planned.push({ itemId, price: staged, microUsd: toMicroUsd(staged, rate), quantity })
  }
  // Planned first and written after: an amount that cannot be held must leave the book as it was.
  const changes = planned.map((row, index) => change(book, row, occasion, index, urls?.get(row.itemId) ?? null))
  const urlChanges = withOtherUrl.map((itemId, index) =>
    changeUrl(book, itemId, urls?.get(itemId) ?? null, occasion, changes.length + index),
  )
  book.currency = currency
  return { changes, urlChanges }
}

export const NOTHING: RowChanges = { changes: [], urlChanges: [] }

/** Applies one pushed observation. A price of 0 withdraws. */
export function applyPushed(
  book: ProviderBook,
  row: { itemId: number; price: number; quantity: number; url: string | null },
  occasion: Omit<Occasion, 'refreshId'>,
): RowChanges {
  const { itemId, price, quantity, url } = row
  if (price === (book.price[itemId] ?? 0) && (price === 0 || quantity === book.quantity[itemId])) {
    if (price === 0 || url === (book.urls.get(itemId) ?? null)) return NOTHING
    return { changes: [], urlChanges: [changeUrl(book, itemId, url, occasion, 0)] }
  }
  const microUsd = price === 0 ? 0 : toMicroUsd(price, occasion.rate)
  book.currency = occasion.currency
  return { changes: [change(book, { ...row, microUsd }, occasion, 0, url)], urlChanges: [] }
}

function change(
  book: ProviderBook,
  row: { itemId: number; price: number; microUsd: number; quantity: number },
  occasion: Occasion,
  index: number,
  url: string | null,
): BookChanged {
  const { itemId } = row
  const wasListed = (book.price[itemId] ?? 0) > 0
  const isListed = row.price > 0
  const previousMicro = wasListed ? (book.microUsd[itemId] ?? 0) : null
  const previousQuantity = wasListed ? (book.quantity[itemId] ?? 0) : 0
  const listedUrl = isListed ? url : null
  setRow(book, itemId, { ...row, quantity: isListed ? row.quantity : 0, seenAt: occasion.seenAt, url: listedUrl })
  return {
    side: book.side,
    provider: book.provider,
    item_id: itemId,
    change: isListed ? (wasListed ? 'updated' : 'added') : 'removed',
    price: isListed ? row.price : null,
    currency: occasion.currency,
    price_micro_usd: isListed ? row.microUsd : null,
    usd_rate: occasion.rate.text,
    quantity: isListed ? row.quantity : 0,
    previous_micro_usd: previousMicro,
    previous_quantity: previousQuantity,
    seen_at: occasion.seenAt,
    refresh_id: occasion.refreshId ?? null,
    url: listedUrl,
    source_partition: occasion.source.partition,
    source_offset: occasion.source.offset,
    source_index: index,
  }
}

function changeUrl(
  book: ProviderBook,
  itemId: number,
  url: string | null,
  occasion: Occasion,
  index: number,
): OfferUrlChanged {
  setUrl(book, itemId, url)
  return {
    side: book.side,
    provider: book.provider,
    item_id: itemId,
    price: book.price[itemId] ?? 0,
    currency: book.currency,
    price_micro_usd: book.microUsd[itemId] ?? 0,
    quantity: book.quantity[itemId] ?? 0,
    seen_at: book.seenAt[itemId] ?? 0,
    refresh_id: occasion.refreshId ?? null,
    url,
    source_partition: occasion.source.partition,
    source_offset: occasion.source.offset,
    source_index: index,
  }
}
