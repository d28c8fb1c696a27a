/**
 * The verdict of `book` on each refresh as a whole (market.refreshes), and the reason for a quarantine
 * (market.quarantine). Totals are those of the provider's book after the verdict, so provider health needs no scan of it.
 */
import { side } from './book-changed.ts'
import { addedLater, defineEvent, type EventValue, nullable } from './event.ts'

/** The verdict on one refresh of one provider and side, and the book's totals after it. */
export const refreshJudged = defineEvent('RefreshJudged', 2, 'A refresh was judged.', {
  side,
  provider: 'string',
  refresh_id: nullable('string'),
  /** The provider's time; the append time where that lies in the future. */
  observed_at: 'long',
  /**
   * applied: the book equals the refresh. quarantined: not applied, the last good book stays.
   * incomplete: entries are missing, nothing applied. failed: ingest could not fetch it, or it cannot be applied.
   * stale: not newer than the book, nothing applied.
   */
  verdict: { type: 'enum', name: 'Verdict', symbols: ['applied', 'quarantined', 'incomplete', 'failed', 'stale'] },
  reason: nullable('string'),
  added: 'int',
  updated: 'int',
  removed: 'int',
  unresolved: 'int',
  rejected: 'int',
  /** Distinct items in the provider's book. */
  unique_items: 'int',
  /** Sum of quantities in the provider's book. */
  total_offers: 'long',
  /** Sum of price x quantity, hundredths of `currency`. */
  total_value: 'long',
  currency: 'string',
  /** The same in hundredths of a US dollar. */
  total_value_usd: 'long',
  /** The version of the catalog by which all of its names were resolved; null where none were, and in records of before version 2. */
  catalog_version: addedLater('string'),
})

export type RefreshJudged = EventValue<typeof refreshJudged>
export type Verdict = RefreshJudged['verdict']

/** A refresh that fails the plausibility check; its records remain in the input from `first_offset` to `last_offset`. */
export const refreshQuarantined = defineEvent(
  'RefreshQuarantined',
  1,
  'A refresh was held back because it looks wrong as a whole.',
  {
    side,
    provider: 'string',
    refresh_id: 'string',
    observed_at: 'long',
    /** `collapsed` (over half of the items gone) or `glitch` (over half of the prices moved by over 80 percent). */
    reason: 'string',
    items_before: 'int',
    items_now: 'int',
    /** Items in both whose price moved by more than 80 percent, and items in both. */
    moved: 'int',
    compared: 'int',
    source_topic: 'string',
    source_partition: 'int',
    first_offset: 'long',
    last_offset: 'long',
  },
)

export type RefreshQuarantined = EventValue<typeof refreshQuarantined>
