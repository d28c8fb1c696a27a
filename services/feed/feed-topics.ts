/** The topics that feeds deliver, and what of their records. */
import type { Decoded } from '#infra/kafka/codec.ts'
import type { BookChanged, RefreshMarked } from '#schemas/events/book-changed.ts'
import type { ResolveItem } from '#schemas/values/catalog-item.ts'
import { isRow, rowOfSale, type SaleRow } from '#streams/sales/reader.ts'

/** A sale as the table of sales takes it; it belongs to no refresh, as pushed changes do. */
interface RecordedSale {
  side: 'sale'
  provider: string
  item_id: number
  seen_at: number
  refresh_id: null
  row: SaleRow
}

/** A change that becomes an item of an event. */
export type FeedChange = BookChanged | RecordedSale

/** Of a record, as feeds read it. */
export type FeedEvent =
  | { event: 'BookChanged'; value: BookChanged }
  | { event: 'RefreshMarked'; value: RefreshMarked }
  | { event: 'SaleObserved'; value: RecordedSale }

/** A topic that feeds deliver. */
export interface FeedTopic {
  key: 'bookChanges' | 'sales'
  /** The event that feeds deliver of one that the log took at a time; undefined: nothing. */
  read(decoded: Decoded, appendedAt: number): FeedEvent | undefined
}

/** Changes of asks and bids. */
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
