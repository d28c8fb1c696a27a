/**
 * Provider health in Redis: in each version one hash from provider to {@link StoredHealth}. Sole writer: the runner, with fold.ts.
 */
import type { Side } from '#schemas/events/book-changed.ts'
import type { Instant } from '#schemas/values/instant.ts'
import type { Minor } from '#schemas/values/money.ts'
import { parseStored } from '#schemas/values/stored-format.ts'
import type { ViewHead } from '#streams/runner/view.ts'

export interface ProviderHealth {
  /** When the last applied refresh was observed; null before the first. Asks decide, bids where there are none. */
  last_completed_at: Instant | null
  /** When the last refresh of either side was observed, whatever came of it. */
  last_checked_at: Instant
  /** Refreshes in a row that failed or came incomplete; the worse of the two sides. */
  consecutive_failures: number
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

export interface SideHealth {
  completed_at: Instant | null
  failures: number
  quarantined_reason: string | null
}

/** The members that readers use, and the sides that they are folded from. */
export interface StoredHealth extends ProviderHealth {
  sides: Partial<Record<Side, SideHealth>>
}

export const HEALTH_FORMAT = 1

export const healthRoot = (prefix = ''): string => `${prefix}{health}`

/** Key of the head, a JSON text of a ViewHead. */
export const healthHeadKey = (prefix = ''): string => `${healthRoot(prefix)}:head`

/** Key of the hash of a version: provider → JSON of {@link StoredHealth}. */
export const healthKey = (version: number, prefix = ''): string => `${healthRoot(prefix)}:${version}:providers`

export const parseHealthHead = (text: string): ViewHead =>
  parseStored('provider health', text, { [HEALTH_FORMAT]: head => head })

export const encodeHealth = (health: StoredHealth): string => JSON.stringify(health)

export const decodeHealth = (text: string): StoredHealth => JSON.parse(text)
