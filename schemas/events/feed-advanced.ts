/**
 * Progress of ingest per feed (market.feeds, compacted), for going on after a restart or in another process.
 *
 * Key: `<side>|<provider>`. Written in one transaction with the end of its refresh, so it neither leads the log nor lags behind it. No
 * view is derived from it.
 */
import { type AvroType, addedLater, defineEvent } from './event.ts'

/** The kind of records that a feed publishes. */
export type FeedSide = 'ask' | 'bid' | 'sale'

export interface FeedAdvanced {
  side: FeedSide
  provider: string
  /** The time of its last refresh that is whole in the log. */
  observed_at: number
  /** Of a feed of sales: eight bytes for each of its last list, the newest first, which are not published again. */
  sale_hashes: Buffer | null
}

const side: AvroType = { type: 'enum', name: 'FeedSide', symbols: ['ask', 'bid', 'sale'] }

export const feedAdvanced = defineEvent<FeedAdvanced>(
  'FeedAdvanced',
  2,
  "A provider's feed has been published up to a time.",
  { side, provider: 'string', observed_at: 'long', sale_hashes: addedLater('bytes') },
)
