/**
 * The verdict of `book` on each refresh as a whole (market.refreshes), and the reason for a quarantine
 * (market.quarantine). Totals are those of the provider's book after the verdict, so provider health needs no scan of it.
 */
import type { Side } from './book-changed.ts'
import { type AvroType, addedLater, defineEvent, nullable } from './event.ts'

/**
 * applied: the book equals the refresh. quarantined: not applied, the last good book stays.
 * incomplete: entries are missing, nothing applied. failed: ingest could not fetch it, or it cannot be applied.
 * stale: not newer than the book, nothing applied.
 */
export type Verdict = 'applied' | 'quarantined' | 'incomplete' | 'failed' | 'stale'

/** The verdict on one refresh of one provider and side, and the book's totals after it. */
export interface RefreshJudged {
  side: Side
  provider: string
  refresh_id: string | null
  /** The provider's time; the append time where that lies in the future. */
  observed_at: number
  verdict: Verdict
  reason: string | null
  added: number
  updated: number
  removed: number
  unresolved: number
  rejected: number
  /** Distinct items in the provider's book. */
  unique_items: number
  /** Sum of quantities in the provider's book. */
  total_offers: number
  /** Sum of price x quantity, hundredths of `currency`. */
  total_value: number
  currency: string
  /** The same in hundredths of a US dollar. */
  total_value_usd: number
  /** The version of the catalog by which all of its names were resolved; null where none were, and in records of before version 2. */
  catalog_version: string | null
}

const side: AvroType = { type: 'enum', name: 'Side', symbols: ['ask', 'bid'] }
const verdict: AvroType = {
  type: 'enum',
  name: 'Verdict',
  symbols: ['applied', 'quarantined', 'incomplete', 'failed', 'stale'],
}

export const refreshJudged = defineEvent<RefreshJudged>('RefreshJudged', 2, 'A refresh was judged.', {
  side,
  provider: 'string',
  refresh_id: nullable('string'),
  observed_at: 'long',
  verdict,
  reason: nullable('string'),
  added: 'int',
  updated: 'int',
  removed: 'int',
  unresolved: 'int',
  rejected: 'int',
  unique_items: 'int',
  total_offers: 'long',
  total_value: 'long',
  currency: 'string',
  total_value_usd: 'long',
  catalog_version: addedLater('string'),
})

/** A refresh that fails the plausibility check as a whole; its records remain in the input from `first_offset` to `last_offset`. */
export interface RefreshQuarantined {
  side: Side
  provider: string
  refresh_id: string
  observed_at: number
  /** `collapsed` (over half of the items gone) or `glitch` (over half of the prices moved by over 80 percent). */
  reason: string
  items_before: number
  items_now: number
  /** Items in both whose price moved by more than 80 percent, and items in both. */
  moved: number
  compared: number
  source_topic: string
  source_partition: number
  first_offset: number
  last_offset: number
}

export const refreshQuarantined = defineEvent<RefreshQuarantined>(
  'RefreshQuarantined',
  1,
  'A refresh was held back because it looks wrong as a whole.',
  {
    side,
    provider: 'string',
    refresh_id: 'string',
    observed_at: 'long',
    reason: 'string',
    items_before: 'int',
    items_now: 'int',
    moved: 'int',
    compared: 'int',
    source_topic: 'string',
    source_partition: 'int',
    first_offset: 'long',
    last_offset: 'long',
  },
)
