/**
 * How far each feed has been published, kept in market.feeds.
 *
 * Reads that topic; the records that advance a feed are sent with the end of its refresh, in one transaction. Invariant: a
 * position neither leads the log nor lags behind it; it is current once it has been read up to the end that the feed's writer
 * fixed, since a former owner cannot write then. A position in the future, which a source with a wrong clock has caused, is
 * ignored: no refresh would be due, and none would count as newer, until that time has come.
 */
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { decodeLearning } from '#infra/kafka/learning.ts'
import type { Outgoing } from '#infra/kafka/publisher.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { type FeedAdvanced, feedAdvanced } from '#schemas/events/feed-advanced.ts'
import { isFromTheFuture } from '#schemas/values/event-time.ts'
import type { Feed } from './connector.ts'

type Named = Pick<Feed, 'provider' | 'side'>

/** The times of the feeds' last published refreshes. */
export interface Positions {
  of(feed: Named): number | undefined
  /** What stores that a feed has been published up to a time; nothing for a time that is not later, or that is in the future. */
  recordsOf(feed: Named, observedAt: number): Outgoing[]
  /** The log has taken a refresh and its position. */
  advance(feed: Named, observedAt: number): void
  /** Reads what the log holds up to an offset; takes milliseconds, since the topic holds one record per feed. */
  refresh(to: number): Promise<void>
}

/** Opens the positions of all feeds; nothing is known until they have been read. */
export function openPositions(kafka: KafkaConnection): Positions {
  const known = new Map<string, number>()
  const isAdvance = (feed: Named, observedAt: number): boolean =>
    observedAt > (known.get(keyOf(feed)) ?? Number.NEGATIVE_INFINITY) && !isFromTheFuture(observedAt, Date.now())
  const advance = (feed: Named, observedAt: number): void => {
    if (isAdvance(feed, observedAt)) known.set(keyOf(feed), observedAt)
  }
  return {
    of: feed => known.get(keyOf(feed)),
    recordsOf({ side, provider }, observedAt) {
      if (!isAdvance({ side, provider }, observedAt)) return []
      const value = kafka.codec.encode(feedAdvanced, { side, provider, observed_at: observedAt })
      return [{ topic: 'feeds', key: keyOf({ side, provider }), value }]
    },
    advance,
    async refresh(to) {
      for (const { side, provider, observed_at } of await readPositions(kafka, to))
        advance({ side, provider }, observed_at)
    },
  }
}

/** The name of a feed: what its position is stored under, and what its owner is known by. */
export const keyOf = (feed: Named): string => `${feed.side}|${feed.provider}`

/** A position that follows an open transaction counts as soon as that has ended. */
async function readPositions(kafka: KafkaConnection, to: number): Promise<FeedAdvanced[]> {
  const topic = kafka.topicName('feeds')
  const reader = await openRangeReader(kafka, [topic])
  const found: FeedAdvanced[] = []
  try {
    await reader.read({ topic, partition: 0, from: 0, to }, async ({ value }) => {
      if (value) found.push((await decodeLearning(kafka.codec, value)).value)
    })
  } finally {
    await reader.close()
  }
  return found
}
