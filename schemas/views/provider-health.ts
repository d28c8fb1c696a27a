/**
 * The Redis view of provider health: what each provider's refreshes came to, and its totals.
 *
 * One hash, provider → JSON of {@link StoredHealth}, beside the offset that it reflects.
 * Whether a provider is up is decided by the reader, who knows the time and the refresh interval
 * (DECISIONS.md, "Provider health"). Sole writer: streams/provider-health.
 */
import type { Side } from '../events/book-changed.ts'
import type { Instant } from '../values/instant.ts'
import type { Minor } from '../values/money.ts'

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

/** What is stored of a provider: what readers use, and the sides that it was made of. */
export interface StoredHealth extends ProviderHealth {
  sides: Partial<Record<Side, SideHealth>>
}

const INTERVALS_UNTIL_DOWN = 3
const SHORTEST_UNTIL_DOWN_MS = 15 * 60_000
const FAILURES_UNTIL_DOWN = 3

/**
 * Whether a provider is down at a time: no refresh has completed within three of its intervals (at least 15 minutes),
 * or the last three failed (DECISIONS.md, "Provider health"); one that was never checked is down.
 */
export function isDown(refreshIntervalMs: number, health: ProviderHealth | undefined, now: Instant): boolean {
  if (!health || health.last_completed_at === null) return true
  if (health.consecutive_failures >= FAILURES_UNTIL_DOWN) return true
  return now - health.last_completed_at > Math.max(INTERVALS_UNTIL_DOWN * refreshIntervalMs, SHORTEST_UNTIL_DOWN_MS)
}

/** Key of the hash: provider → JSON of {@link StoredHealth}. */
export const healthKey = (prefix = ''): string => `${prefix}{health}:providers`

/** Key of the next offset of market.refreshes that {@link healthKey} lacks. */
export const healthNextKey = (prefix = ''): string => `${prefix}{health}:next`
