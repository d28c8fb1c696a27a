/**
 * Folds changes into the close of each provider's day.
 *
 * Pure. Invariant: the fold is by log offset, so order, repeats and the cutting into batches do not
 * matter (ClickHouse merges by the same rule, schemas/views/clickhouse/provider-days.ts).
 */
import type { BookChanged, Side } from '#schemas/events/book-changed.ts'

/** How one provider's row for an item stands at the end of a day, as far as the folded changes tell. */
export interface Day {
  itemId: number
  side: Side
  provider: string
  /** Days since 1970-01-01. */
  day: number
  /** The last change that set a price; undefined when none did. */
  priced: { version: number; price: number; microUsd: number; currency: string } | undefined
  closing: { version: number; listed: boolean; quantity: number }
}

const DAY_MS = 86_400_000

/** Folds one change into the days of a batch. */
export function foldDay(days: Map<string, Day>, change: BookChanged, offset: number): void {
  const { item_id: itemId, side, provider, price, price_micro_usd: microUsd, currency, quantity } = change
  const day = Math.floor(change.seen_at / DAY_MS)
  const key = `${itemId}|${side}|${provider}|${day}`
  const before = days.get(key)
  const priced = price === null || microUsd === null ? undefined : { version: offset, price, microUsd, currency }
  const closing = { version: offset, listed: price !== null, quantity }
  days.set(key, {
    ...{ itemId, side, provider, day },
    priced: newer(before?.priced, priced),
    closing: newer(before?.closing, closing) ?? closing,
  })
}

function newer<T extends { version: number }>(a: T | undefined, b: T | undefined): T | undefined {
  if (a === undefined || b === undefined) return a ?? b
  return a.version > b.version ? a : b
}
