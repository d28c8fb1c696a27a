/**
 * Provider health in Redis: one hash from provider to {@link StoredHealth}, and the position that it reflects.
 *
 * Both keys share a hash tag, so that one atomic write may hold them. Sole writer: sink.ts.
 */
import type { Side } from '#schemas/events/book-changed.ts'
import type { Instant } from '#schemas/values/instant.ts'
import type { Minor } from '#schemas/values/money.ts'

/** What a provider's refreshes came to. */
export interface ProviderHealth {
  /** When the last applied refresh was observed; null before the first. Asks decide, bids where there are none. */
  last_completed_at: Instant | null
  /** When the last refresh of either side was observed, whatever came of it. */
  last_checked_at: Instant
  /** Refreshes in a row that failed or came incomplete; the worse of the two sides. */
  consecutive_failures: number
  /** Totals of the asks. */
  total_offers: number
  unique_items: number
  /** Hundredths of `currency`. */
  total_value: Minor
  /** Hundredths of a US dollar. */
  total_value_usd: Minor
  currency: string
  /** Why the last refresh of a side is held back; null when none is. */
  quarantined_reason: string | null
}

/** What the refreshes of one side came to: the writer's own memory. */
export interface SideHealth {
  completed_at: Instant | null
  failures: number
  quarantined_reason: string | null
}

/** What is stored of a provider: what readers use, and the sides that it is folded from. */
export interface StoredHealth extends ProviderHealth {
  sides: Partial<Record<Side, SideHealth>>
}

/** Key of the hash: provider → JSON of {@link StoredHealth}. */
export const healthKey = (prefix = ''): string => `${prefix}{health}:providers`

/** Key of the position in market.refreshes that {@link healthKey} reflects, the JSON text of a ViewPosition. */
export const healthPositionKey = (prefix = ''): string => `${prefix}{health}:position`

/** The text of a stored record. */
export const encodeHealth = (health: StoredHealth): string => JSON.stringify(health)

/** Reads what {@link encodeHealth} wrote. */
export const decodeHealth = (text: string): StoredHealth => JSON.parse(text)
