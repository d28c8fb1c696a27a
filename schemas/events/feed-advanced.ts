/**
 * Progress of ingest per feed (market.feeds, compacted), for going on after a restart or in another process.
 *
 * Key: `<side>|<provider>`. Written in one transaction with the end of its refresh, so it neither leads the log nor lags behind it. No
 * view is derived from it.
 */
import { addedLater, defineEvent, type EventValue } from './event.ts'

export const feedAdvanced = defineEvent('FeedAdvanced', 2, "A provider's feed has been published up to a time.", {
  /** The kind of records that a feed publishes. */
  side: { type: 'enum', name: 'FeedSide', symbols: ['ask', 'bid', 'sale'] },
  provider: 'string',
  /** The time of its last refresh that is whole in the log. */
  observed_at: 'long',
  /** Of a feed of sales: eight bytes for each of its last list, the newest first, which are not published again. */
  sale_hashes: addedLater('bytes'),
})

export type FeedAdvanced = EventValue<typeof feedAdvanced>
export type FeedSide = FeedAdvanced['side']
