/**
 * Keeps the quotes of the market: filled from the book's changelog, then following market.book-changes.
 *
 * Reads without a group, since its state is in memory and every start reads it again. Nobody gets the quotes before all that was
 * in the log when following began has been applied. It follows from where the changes ended before the changelog was read: rows are
 * newer than that position at worst, which following corrects.
 */
import { type Decoded, eventOf } from '#infra/kafka/codec.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { follow } from '#infra/kafka/follower.ts'
import { type LogRecord, openRangeReader } from '#infra/kafka/range-reader.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { TopicIds } from '#infra/runtime/role.ts'
import { nextTurn } from '#infra/runtime/turns.ts'
import { ITEM_PARTITIONS, topics } from '#schemas/topics.ts'
import { foldBook } from '#streams/book/reader.ts'
import type { MarketQuotes } from './market-quotes.ts'

const PARTITIONS = Array.from({ length: ITEM_PARTITIONS }, (_, partition) => partition)

/**
 * Resolves when the quotes are those of now, and keeps following; `position` is the next offset that they do not reflect,
 * `lost` rejects when the log is lost.
 */
export async function followMarket(
  quotes: MarketQuotes,
  { kafka, ids, log, signal }: { kafka: KafkaConnection; ids?: TopicIds; log: Log; signal: AbortSignal },
): Promise<{ position(partition: number): number; lost: Promise<void> } | undefined> {
  await kafka.codec.prepare([...topics.bookChanges.events, ...topics.book.events])
  const from = await fillQuotes(quotes, kafka, signal)
  if (signal.aborted) return undefined
  const following = await follow(kafka, 'bookChanges', {
    from: partition => from[partition] ?? 0,
    onRecords(records) {
      for (const record of records) applyDecoded(quotes, record, eventOf(kafka.codec, record.value), log)
    },
    signal,
    ids,
  })
  following.closed.catch(() => undefined)
  await following.caughtUp
  return { position: following.position, lost: following.closed }
}

/** Fills the quotes from the changelog; where the changes of each partition ended before. */
async function fillQuotes(quotes: MarketQuotes, kafka: KafkaConnection, signal: AbortSignal): Promise<number[]> {
  const changes = kafka.topicName('bookChanges')
  const reader = await openRangeReader(kafka, [changes, kafka.topicName('book')])
  try {
    const from: number[] = []
    for (const partition of PARTITIONS) from.push(await reader.stableEnd(changes, partition))
    await foldBook(
      { kafka, reader },
      {
        targetOf: () => (signal.aborted ? undefined : quotes),
        row: (_, side, provider, itemId, stored) =>
          quotes.set(
            side,
            provider,
            itemId,
            stored === null
              ? undefined
              : { microUsd: stored.price_micro_usd, quantity: stored.quantity, seenAt: stored.seen_at },
          ),
        refreshed(side, provider, at) {
          for (const partition of PARTITIONS) quotes.refreshed(side, provider, partition, at)
        },
        // The role `book` stops at it; here it only changes nothing.
        unreadable: () => undefined,
        page: nextTurn,
      },
    )
    return from
  } finally {
    await reader.close()
  }
}

/** A record that cannot be read is a dead letter of the sinks already; here it is left out. */
function applyDecoded(quotes: MarketQuotes, record: LogRecord, decoded: Decoded | undefined, log: Log): void {
  if (decoded === undefined) {
    log.warn({ partition: record.partition, offset: record.offset }, 'a record could not be read and was left out')
  } else if (decoded.event === 'BookChanged') quotes.change(decoded.value)
  else if (decoded.event === 'RefreshMarked') quotes.mark(decoded.value, record.partition)
}
