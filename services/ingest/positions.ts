/**
 * How far each feed has been published, and which sales its last list held, kept in market.feeds.
 *
 * Reads that topic; the records that advance a feed are sent with the end of its refresh, in one transaction. Invariant: a
 * position neither leads the log nor lags behind it; it is current once it has been read up to the end that the feed's writer
 * fixed, since a former owner cannot write then. A position in the future, which a source with a wrong clock has caused, is
 * ignored: no refresh would be due, and none would count as newer, until that time has come.
 */
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Outgoing } from '#infra/kafka/publisher.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { type FeedAdvanced, feedAdvanced } from '#schemas/events/feed-advanced.ts'
import type { ResolveItem } from '#schemas/values/catalog-item.ts'
import { isFromTheFuture } from '#schemas/values/event-time.ts'
import type { Feed } from './connector.ts'
import { openSaleList, type SaleList } from './sale-list.ts'

type Named = Pick<Feed, 'provider' | 'side'>

export interface Positions {
  of(feed: Named): number | undefined
  /** The list of sales that follows its last one. */
  nextSaleList(feed: Named): SaleList
  /** What stores a position; nothing for a time that is not later, or that is in the future. */
  recordsOf(position: FeedAdvanced): Outgoing[]
  /** The log has taken a refresh and its position. */
  advance(position: FeedAdvanced): void
  /** Reads what the log holds up to an offset; takes milliseconds, since the topic holds one record per feed. */
  refresh(to: number): Promise<void>
}

export function openPositions(kafka: KafkaConnection, resolve: ResolveItem): Positions {
  const known = new Map<string, FeedAdvanced>()
  const of = (feed: Named): number | undefined => known.get(keyOf(feed))?.observed_at
  const isAdvance = (position: FeedAdvanced): boolean =>
    position.observed_at > (of(position) ?? Number.NEGATIVE_INFINITY) &&
    !isFromTheFuture(position.observed_at, Date.now())
  const advance = (position: FeedAdvanced): void => {
    if (isAdvance(position)) known.set(keyOf(position), position)
  }
  return {
    of,
    nextSaleList: feed => openSaleList(known.get(keyOf(feed))?.sale_hashes ?? null, resolve),
    recordsOf: position =>
      isAdvance(position)
        ? [{ topic: 'feeds', key: keyOf(position), value: kafka.codec.encode(feedAdvanced, position) }]
        : [],
    advance,
    async refresh(to) {
      for (const position of await readPositions(kafka, to)) advance(position)
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
      if (value) found.push(kafka.codec.decode(value).value)
    })
  } finally {
    await reader.close()
  }
  return found
}
