/** The topics that feeds deliver, and what of their records. */
import { type Decoded, DecodeError } from '#infra/kafka/codec.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { LogRecord } from '#infra/kafka/range-reader.ts'
import type { BookChanged, RefreshMarked } from '#schemas/events/book-changed.ts'
import { topics } from '#schemas/topics.ts'
import type { ResolveItem } from '#schemas/values/catalog-item.ts'
import { isRow, rowOfSale, type SaleRow } from '#streams/sales/reader.ts'
import type { FeedMetrics } from './metrics.ts'

/** A sale as the table of sales takes it; it belongs to no refresh, as pushed changes do. */
interface RecordedSale {
  side: 'sale'
  provider: string
  item_id: number
  seen_at: number
  refresh_id: null
  row: SaleRow
}

export type FeedChange = BookChanged | RecordedSale

export type FeedEvent =
  | { event: 'BookChanged'; value: BookChanged }
  | { event: 'RefreshMarked'; value: RefreshMarked }
  | { event: 'SaleObserved'; value: RecordedSale }

export type ChangeRecord = FeedEvent & { partition: number; offset: number }

export interface FeedTopic {
  key: 'bookChanges' | 'sales'
  /** The event that feeds deliver of one that the log took at a time; undefined: nothing. */
  read(decoded: Decoded, appendedAt: number): FeedEvent | undefined
}

export const bookTopic: FeedTopic = {
  key: 'bookChanges',
  read: ({ event, value }) => (event === 'BookChanged' || event === 'RefreshMarked' ? { event, value } : undefined),
}

/** Sales; those that the table of sales would not take are left out. */
export const salesTopic = (resolve: ResolveItem, onLeftOut: () => void): FeedTopic => ({
  key: 'sales',
  read({ event, value }, appendedAt) {
    if (event !== 'SaleObserved') return undefined
    const row = rowOfSale(value, resolve, appendedAt)
    if (!isRow(row)) {
      onLeftOut()
      return undefined
    }
    const { provider, item_id, observed_at: seen_at } = row
    return { event, value: { side: 'sale', provider, item_id, seen_at, refresh_id: null, row } }
  },
})

/** A record as the assembler reads it; undefined when feeds do not deliver its event, and counted when it cannot be read. */
export function decodeChange(
  kafka: KafkaConnection,
  topic: FeedTopic,
  { partition, offset, value, timestamp }: Pick<LogRecord, 'partition' | 'offset' | 'value' | 'timestamp'>,
  metrics: Pick<FeedMetrics, 'undecodable'>,
): ChangeRecord | undefined {
  try {
    if (value === null) throw new DecodeError('the record has no value')
    const event = topic.read(kafka.codec.decode(value), timestamp)
    return event && { partition, offset, ...event }
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error
    metrics.undecodable.inc()
    kafka.log.warn({ reason: error.message }, `a record of ${topics[topic.key].name} cannot be read`)
  }
}
