/**
 * Makes the book equal a judged refresh, or takes a pushed observation, and returns what changed.
 *
 * Invariant: changes come in ascending item id, one per item, and after the last of them the book lists exactly what was staged.
 * `updated` means that the native price or the quantity changed; a moved exchange rate alone changes nothing.
 */
import type { BookChanged } from '#schemas/events/book-changed.ts'
import type { RefreshCompleted } from '#schemas/events/observation.ts'
import { type Rate, toMicroUsd } from '#schemas/values/money.ts'
import { dropStaged, isStaged, type ProviderBook, setRow } from './provider-book.ts'

/** The input record of a change: its partition, offset and append time. */
export interface Source {
  partition: number
  offset: number
  appendedAt: number
}

/** What all changes of one refresh or observation share. */
interface Occasion {
  currency: string
  rate: Rate
  seenAt: number
  refreshId: string | null
  source: Source
}

/** Applies the staged refresh and returns its changes. Throws RangeError when an amount is beyond 2^53 micro-dollars. */
export function applyRefresh(
  book: ProviderBook,
  completed: RefreshCompleted,
  rate: Rate,
  source: Source,
): BookChanged[] {
  const occasion: Occasion = {
    currency: completed.currency,
    rate,
    seenAt: completed.observed_at,
    refreshId: completed.refresh_id,
    source,
  }
  const hasOtherCurrency = book.currency !== completed.currency
  const urls = book.open?.urls
  const planned: { itemId: number; price: number; microUsd: number; quantity: number }[] = []
  for (let itemId = 0; itemId < book.price.length; itemId++) {
    const price = book.price[itemId] ?? 0
    if (!isStaged(book, itemId)) {
      if (price > 0) planned.push({ itemId, price: 0, microUsd: 0, quantity: 0 })
      continue
    }
    const staged = book.stagedPrice[itemId] ?? 0
    const quantity = book.stagedQuantity[itemId] ?? 0
    if (staged === price && quantity === book.quantity[itemId] && !hasOtherCurrency) continue
    planned.push({ itemId, price: staged, microUsd: toMicroUsd(staged, rate), quantity })
  }
  // Planned first and written after: an amount that cannot be held must leave the book as it was.
  const changes = planned.map((row, index) => change(book, row, occasion, index, urls?.get(row.itemId) ?? null))
  book.currency = completed.currency
  dropStaged(book)
  return changes
}

/** Applies one pushed observation; undefined when it changes nothing. A price of 0 withdraws. */
export function applyPushed(
  book: ProviderBook,
  row: { itemId: number; price: number; quantity: number; url: string | null },
  occasion: { currency: string; rate: Rate; seenAt: number; source: Source },
): BookChanged | undefined {
  const before = book.price[row.itemId] ?? 0
  if (row.price === before && (row.price === 0 || row.quantity === book.quantity[row.itemId])) return undefined
  const microUsd = row.price === 0 ? 0 : toMicroUsd(row.price, occasion.rate)
  book.currency = occasion.currency
  return change(book, { ...row, microUsd }, { ...occasion, refreshId: null }, 0, row.url)
}

/** Writes the row and returns the change. */
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
  setRow(book, itemId, { ...row, quantity: isListed ? row.quantity : 0, seenAt: occasion.seenAt })
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
    refresh_id: occasion.refreshId,
    url: isListed ? url : null,
    source_partition: occasion.source.partition,
    source_offset: occasion.source.offset,
    source_index: index,
  }
}
