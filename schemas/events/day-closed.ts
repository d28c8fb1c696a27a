/**
 * A provider's daily close of a name, from a history file (market.day-closes).
 *
 * Such history is not published as refreshes: it is years old while the provider may be live, and the book would judge
 * it stale. The streams that own daily tables read it from this topic. Each record also holds the close before it in its
 * file, so it can be folded without any other record, in any order and any number of times.
 */
import { defineEvent, nullable } from './event.ts'

/** A provider's close of a name on a UTC day. */
export interface DayClosed {
  provider: string
  market_hash_name: string
  phase: string | null
  day: number
  /** Hundredths of `currency`. */
  price: number
  currency: string
  /** Units of `currency` per US dollar that ingest knew. */
  usd_rate: string
  /** Null where the file has none. */
  listings: number | null
  /** The file's close before this one; null for the first. */
  previous_price: number | null
  previous_listings: number | null
  /** The file has no later day: the close is not carried forward. */
  is_last: boolean
}

export const dayClosed = defineEvent<DayClosed>('DayClosed', 1, "A provider's close of a name on a past day.", {
  provider: 'string',
  market_hash_name: 'string',
  phase: nullable('string'),
  day: 'long',
  price: 'long',
  currency: 'string',
  usd_rate: 'string',
  listings: nullable('int'),
  previous_price: nullable('long'),
  previous_listings: nullable('int'),
  is_last: 'boolean',
})
