/**
 * Folds book changes and refresh markers into what a partition of the live view must write.
 *
 * Of several changes of a row the last counts; the listing changes only where an item appears or goes. Invariant: writing the
 * fold of any suffix of the log onto a view that already reflects it leaves the view as it is.
 */
import type { BookChanged, OfferUrlChanged, RefreshMarked, Side } from '#schemas/events/book-changed.ts'
import type { BookRowStored } from '#schemas/events/book-state.ts'
import type { Instant } from '#schemas/values/instant.ts'
import type { ViewPosition } from '#streams/runner/positions.ts'
import { encodeRow, type LiveHead } from './table.ts'

/** What one side of a partition must write. */
interface SideBatch {
  /** Item → provider → row text; null takes the row out. */
  items: Map<number, Map<string, string | null>>
  /** Provider → item → whether it is listed from now on. */
  listings: Map<string, Map<number, boolean>>
  /** Provider → when it was last refreshed. */
  refreshed: Map<string, number>
}

/** What a partition must write. */
export type LiveBatch = Record<Side, SideBatch>

const emptySide = (): SideBatch => ({ items: new Map(), listings: new Map(), refreshed: new Map() })

/** A batch with nothing to write. */
export const emptyBatch = (): LiveBatch => ({ ask: emptySide(), bid: emptySide() })

/** Folds a change, or another URL of a row, into a batch. */
export function foldChange(batch: LiveBatch, change: BookChanged | OfferUrlChanged): void {
  const { side, provider, item_id: itemId } = change
  const { price, price_micro_usd: microUsd } = change
  if (price === null || microUsd === null) {
    setRow(batch[side], itemId, provider, null)
    setListing(batch[side], itemId, provider, false)
    return
  }
  setRow(
    batch[side],
    itemId,
    provider,
    encodeRow({
      price,
      currency: change.currency,
      priceMicroUsd: microUsd,
      quantity: change.quantity,
      seenAt: change.seen_at,
      url: change.url,
    }),
  )
  if ('change' in change && change.change === 'added') setListing(batch[side], itemId, provider, true)
}

/** Folds a row of the book's own changelog into a batch; null takes it out. */
export function foldRow(
  batch: LiveBatch,
  row: { side: Side; provider: string; itemId: number; stored: BookRowStored | null },
): void {
  const { side, provider, itemId, stored } = row
  const text =
    stored === null
      ? null
      : encodeRow({
          price: stored.price,
          currency: stored.currency,
          priceMicroUsd: stored.price_micro_usd,
          quantity: stored.quantity,
          seenAt: stored.seen_at,
          url: stored.url,
        })
  setRow(batch[side], itemId, provider, text)
  setListing(batch[side], itemId, provider, text !== null)
}

/** Folds a refresh marker into a batch. */
export function foldMarker(batch: LiveBatch, { side, provider, last_updated }: RefreshMarked): void {
  foldRefreshed(batch, side, provider, last_updated)
}

/** Notes when a provider was last refreshed. */
export function foldRefreshed(batch: LiveBatch, side: Side, provider: string, at: Instant): void {
  const { refreshed } = batch[side]
  refreshed.set(provider, Math.max(refreshed.get(provider) ?? 0, at))
}

/** The head after a batch that leads to a position. */
export function headAfter(head: LiveHead, batch: LiveBatch, { topicId, next, until }: ViewPosition): LiveHead {
  const merged = (before: Record<string, number>, { refreshed }: SideBatch): Record<string, number> => {
    const after = { ...before }
    for (const [provider, at] of refreshed) after[provider] = Math.max(after[provider] ?? 0, at)
    return after
  }
  const { format, generation, succeeds } = head
  return {
    ...{ format, generation, succeeds, topicId, next, until },
    ...{ ask: merged(head.ask, batch.ask), bid: merged(head.bid, batch.bid) },
  }
}

function setRow({ items }: SideBatch, itemId: number, provider: string, text: string | null): void {
  const rows = items.get(itemId)
  if (rows) rows.set(provider, text)
  else items.set(itemId, new Map([[provider, text]]))
}

function setListing({ listings }: SideBatch, itemId: number, provider: string, isListed: boolean): void {
  const listing = listings.get(provider)
  if (listing) listing.set(itemId, isListed)
  else listings.set(provider, new Map([[itemId, isListed]]))
}
