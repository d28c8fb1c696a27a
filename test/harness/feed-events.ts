/**
 * Events of the book for tests of the feed, with plain defaults.
 *
 * Two calls with the same members give equal events.
 */
import type { BookChanged, RefreshMarked } from '#schemas/events/book-changed.ts'

/** A change; by default provider p asks 1.00 USD for item 1 in refresh r. */
export const changed = (members: Partial<BookChanged> = {}): BookChanged => ({
  ...{ side: 'ask', provider: 'p', item_id: 1, change: 'added' },
  ...{ price: 100, currency: 'USD', price_micro_usd: 1_000_000, usd_rate: '1', quantity: 1 },
  ...{ previous_micro_usd: null, previous_quantity: 0, seen_at: 1_772_573_670_549, refresh_id: 'r', url: null },
  ...{ source_partition: 0, source_offset: 0, source_index: 0 },
  ...members,
})

/** The marker of such a refresh. */
export const marked = (members: Partial<RefreshMarked> = {}): RefreshMarked => ({
  ...{ side: 'ask', provider: 'p', refresh_id: 'r', last_updated: 1_772_573_670_549 },
  ...{ source_partition: 0, source_offset: 0 },
  ...members,
})
