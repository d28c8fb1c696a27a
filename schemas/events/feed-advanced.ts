/**
 * Progress of ingest per feed (market.feeds, compacted), for resuming after a restart.
 *
 * Key: `<side>|<provider>`. Written after the refresh was acknowledged, so it may lag behind the log by one refresh and
 * never leads it: a restart repeats at most that refresh, under the same refresh_id, and `book` judges it stale. No view
 * is derived from it.
 */
import { type AvroType, defineEvent } from './event.ts'

/** The kind of records that a feed publishes. */
export type FeedSide = 'ask' | 'bid' | 'sale'

/** A provider's feed has been published up to a time. */
export interface FeedAdvanced {
  side: FeedSide
  provider: string
  /** The time of its last refresh that is whole in the log. */
  observed_at: number
}

const side: AvroType = { type: 'enum', name: 'FeedSide', symbols: ['ask', 'bid', 'sale'] }

/** A provider's feed has been published up to a time. */
export const feedAdvanced = defineEvent<FeedAdvanced>(
  'FeedAdvanced',
  1,
  "A provider's feed has been published up to a time.",
  { side, provider: 'string', observed_at: 'long' },
)
