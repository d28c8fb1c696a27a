/**
 * Folds changes into the close of each provider's day.
 *
 * Invariant: the fold of a batch carries the versions of the records that it comes from, by which
 * ClickHouse merges batches in any order (table.ts).
 */
import type { BookChanged, Side } from '#schemas/events/book-changed.ts'

/** One provider's row for an item at the end of a day, by the folded changes. */
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

/** Folds one change into the days of a batch; changes come in the order of the log. */
export function foldDay(days: Map<string, Day>, change: BookChanged, version: number): void {
  const { item_id: itemId, side, provider, price, price_micro_usd: microUsd, currency, quantity } = change
  const day = Math.floor(change.seen_at / DAY_MS)
  const key = `${itemId}|${side}|${provider}|${day}`
  const priced = price === null || microUsd === null ? undefined : { version, price, microUsd, currency }
  days.set(key, {
    itemId,
    side,
    provider,
    day,
    priced: priced ?? days.get(key)?.priced,
    closing: { version, listed: price !== null, quantity },
  })
}
