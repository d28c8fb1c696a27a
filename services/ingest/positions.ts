/**
 * How far each source has been published, and which sales its last list held, kept in market.feeds.
 *
 * Reads that topic; the records that advance a source are sent with the end of its refresh, in one transaction. Invariant: a
 * position neither leads the log nor lags behind it; it is current once it has been read up to the end that the source's writer
 * fixed, since a former owner cannot write then. A position in the future, which a source with a wrong clock has caused, is
 * ignored: no refresh would be due, and none would count as newer, until that time has come.
 */
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Outgoing } from '#infra/kafka/publisher.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { type FeedAdvanced, feedAdvanced } from '#schemas/events/feed-advanced.ts'
import type { ResolveItem } from '#schemas/values/catalog-item.ts'
import { isFromTheFuture } from '#schemas/values/event-time.ts'
import { openSaleList, type SaleList } from './sale-list.ts'
import type { Source } from './source.ts'

export type Positions = ReturnType<typeof openPositions>

export function openPositions(kafka: KafkaConnection, resolve: ResolveItem) {
  const positions = new Map<string, FeedAdvanced>()
  const of = (source: Source): number | undefined => positions.get(keyOf(source))?.observed_at
  const isAdvance = (position: FeedAdvanced): boolean =>
    position.observed_at > (of(position) ?? Number.NEGATIVE_INFINITY) &&
    !isFromTheFuture(position.observed_at, Date.now())
  /** The log has taken a refresh and its position. */
  const advance = (position: FeedAdvanced): void => {
    if (isAdvance(position)) positions.set(keyOf(position), position)
  }
  return {
    of,
    nextSaleList: (source: Source): SaleList =>
      openSaleList(positions.get(keyOf(source))?.sale_hashes ?? null, resolve),
    /** The record that stores a position; none for a time that is not later, or that is in the future. */
    recordsOf: (position: FeedAdvanced): Outgoing[] =>
      isAdvance(position)
        ? [{ topic: 'feeds', key: keyOf(position), value: kafka.codec.encode(feedAdvanced, position) }]
        : [],
    advance,
    /** Reads what the log holds up to an offset; takes milliseconds, since the topic holds one record per source. */
    async refresh(to: number): Promise<void> {
      const topic = kafka.topicName('feeds')
      const reader = await openRangeReader(kafka, [topic])
      try {
        for await (const page of reader.range(topic, new Map([[0, { from: 0, to }]])))
          for (const { value } of page) if (value) advance(kafka.codec.decode(value).value)
      } finally {
        await reader.close()
      }
    },
  }
}

/** The name of a source: what its position is stored under, and what its owner is known by. */
export const keyOf = (source: Source): string => `${source.side}|${source.provider}`
