/**
 * A provider's daily close of a name, from a history file (market.day-closes).
 *
 * Such history is not published as refreshes: it is years old while the provider may be live, and the book would judge
 * it stale. The streams that own daily tables read it from this topic. Each record also holds the close before it in its
 * file, so it can be folded without any other record, in any order and any number of times.
 */
import { defineEvent, type EventValue, nullable } from './event.ts'

export const dayClosed = defineEvent('DayClosed', 1, "A provider's close of a name on a past day.", {
  provider: 'string',
  market_hash_name: 'string',
  phase: nullable('string'),
  /** In UTC. */
  day: 'long',
  /** Hundredths of `currency`. */
  price: 'long',
  currency: 'string',
  /** Units of `currency` per US dollar that ingest knew. */
  usd_rate: 'string',
  /** Null where the file has none. */
  listings: nullable('int'),
  /** The file's close before this one; null for the first. */
  previous_price: nullable('long'),
  previous_listings: nullable('int'),
  /** The file has no later day: the close is not carried forward. */
  is_last: 'boolean',
})

export type DayClosed = EventValue<typeof dayClosed>
