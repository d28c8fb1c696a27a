/**
 * How far each feed has been published, kept in market.feeds and read back at the start.
 *
 * Writes and reads that topic alone. Invariant: a position is stored after its refresh was
 * acknowledged, so it never leads the log.
 */
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { follow } from '#infra/kafka/follower.ts'
import { decodeLearning } from '#infra/kafka/learning.ts'
import { type FeedAdvanced, feedAdvanced } from '#schemas/events/feed-advanced.ts'
import type { Feed } from './connector.ts'
import type { Outlet } from './outlet.ts'

type Named = Pick<Feed, 'provider' | 'side'>

/** The times of the feeds' last published refreshes. */
export interface Positions {
  of(feed: Named): number | undefined
  /** Stores that a feed has been published up to a time; an earlier time changes nothing. */
  advance(feed: Named, observedAt: number): Promise<void>
}

/** Reads the positions of all feeds; takes milliseconds, since the topic holds one record per feed. */
export async function openPositions(kafka: KafkaConnection, outlet: Outlet, signal: AbortSignal): Promise<Positions> {
  const known = await readPositions(kafka, signal)
  return {
    of: feed => known.get(keyOf(feed)),
    async advance(feed, observedAt) {
      const key = keyOf(feed)
      if (observedAt <= (known.get(key) ?? Number.NEGATIVE_INFINITY)) return
      known.set(key, observedAt)
      const event = { side: feed.side, provider: feed.provider, observed_at: observedAt }
      await outlet.publisher.send([{ topic: 'feeds', key, value: outlet.codec.encode(feedAdvanced, event) }])
    },
  }
}

const keyOf = (feed: Named): string => `${feed.side}|${feed.provider}`

async function readPositions(kafka: KafkaConnection, signal: AbortSignal): Promise<Map<string, number>> {
  const known = new Map<string, number>()
  const done = new AbortController()
  const following = await follow(kafka, 'feeds', {
    from: 'start',
    signal: AbortSignal.any([signal, done.signal]),
    async onRecords(records) {
      for (const { value } of records) {
        if (!value) continue
        const advanced: FeedAdvanced = (await decodeLearning(kafka.codec, value)).value
        known.set(keyOf(advanced), advanced.observed_at)
      }
    },
  })
  try {
    await Promise.race([following.caughtUp, following.closed])
  } finally {
    done.abort()
  }
  await following.closed
  return known
}
