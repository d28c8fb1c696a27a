/**
 * What tests publish, as the roles that write it would: refreshes and sales in ingest's words, changes and rows in the book's.
 *
 * Pure. A refresh is the same for the log and for the reference fold: what is lost or rejected on its way is so in both.
 */
import type { Codec } from '#infra/kafka/codec.ts'
import type { Outgoing } from '#infra/kafka/publisher.ts'
import {
  type BookChanged,
  bookChanged,
  type OfferUrlChanged,
  offerUrlChanged,
  type RefreshMarked,
  refreshMarked,
  type Side,
} from '#schemas/events/book-changed.ts'
import { bookRowStored } from '#schemas/events/book-state.ts'
import { fxRatesPublished } from '#schemas/events/fx-rates-published.ts'
import {
  askObserved,
  bidObserved,
  observationRejected,
  refreshCompleted,
  refreshFailed,
} from '#schemas/events/observation.ts'
import { type SaleObserved, saleObserved } from '#schemas/events/sale-observed.ts'
import { ITEM_PARTITIONS, PROVIDER_PARTITIONS } from '#schemas/topics.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { partitionOf } from '#schemas/values/partition.ts'
import type { GivenRefresh } from './reference-fold.ts'

export interface PublishedEntry {
  name: string
  phase?: string | null
  /** Undefined where the catalog has no such item. */
  itemId: number | undefined
  price: number
  quantity: number
  /** The refresh's where left out. */
  currency?: string
  /** Ingest could make nothing of it. */
  isRejected?: boolean
}

/** How a refresh ends: completed; completed though an entry was lost; by nothing; by a RefreshFailed. */
type Ending = 'completed' | 'lossy' | 'cut' | 'failed'

export interface PublishedRefresh extends Omit<GivenRefresh, 'entries' | 'completed'> {
  entries: PublishedEntry[]
  ending: Ending
  /** Why it failed, where it is not for a timeout. */
  failure?: string
}

/** A whole refresh of asks in dollars, unless its members say otherwise. */
export const refreshOf = (
  members: Pick<PublishedRefresh, 'provider' | 'observedAt' | 'entries'> & Partial<PublishedRefresh>,
): PublishedRefresh => ({
  side: 'ask',
  currency: 'USD',
  usdRate: '1',
  ending: 'completed',
  refreshId: `r${members.observedAt}`,
  ...members,
})

/** The marketplace's page of an item: some providers give it, others do not. */
export const urlOf = (provider: string, itemId: number | undefined): string | null =>
  itemId !== undefined && /[13579]$/.test(provider) ? `https://${provider.replace('_', '-')}.example/i/${itemId}` : null

export function arriving({ entries, ending }: PublishedRefresh): { entry: PublishedEntry; index: number }[] {
  const lost = ending === 'lossy' ? Math.floor(entries.length / 2) : undefined
  return entries.map((entry, index) => ({ entry, index })).filter(({ index }) => index !== lost)
}

/** Whether an entry says something that the book takes. */
export const isUsable = (entry: PublishedEntry, { currency }: PublishedRefresh): boolean =>
  !entry.isRejected && entry.price > 0 && (entry.currency ?? currency) === currency

export function refreshRecords(codec: Codec, refresh: PublishedRefresh): Outgoing[] {
  const { side, provider, refreshId: refresh_id, observedAt: observed_at, currency, usdRate, ending } = refresh
  const topic = side === 'ask' ? 'quotes' : 'bids'
  const observed = side === 'ask' ? askObserved : bidObserved
  const common = { provider, refresh_id, observed_at }
  const record = (value: Buffer): Outgoing => ({ topic, key: provider, value })
  const records = arriving(refresh).map(({ entry, index }) => {
    const { name: market_hash_name, phase = null, itemId, price, quantity } = entry
    if (entry.isRejected) {
      const raw = JSON.stringify(market_hash_name)
      return record(
        codec.encode(observationRejected, { ...common, index, market_hash_name, raw, reason: 'price_not_number' }),
      )
    }
    const offer = { market_hash_name, phase, price, currency: entry.currency ?? currency, quantity }
    const url = urlOf(provider, itemId)
    return record(codec.encode(observed, { ...common, index, ...offer, usd_rate: null, url }))
  })
  if (ending === 'failed') {
    records.push(record(codec.encode(refreshFailed, { provider, observed_at, reason: 'timeout', detail: 'cut' })))
  } else if (ending !== 'cut') {
    const count = refresh.entries.length
    records.push(record(codec.encode(refreshCompleted, { ...common, count, currency, usd_rate: usdRate })))
  }
  return records
}

export function givenOf(refresh: PublishedRefresh): GivenRefresh {
  const { side, provider, refreshId, observedAt, appendedAt, currency, usdRate, ending } = refresh
  const entries = arriving(refresh)
    .filter(({ entry }) => isUsable(entry, refresh))
    .map(({ entry: { itemId, price, quantity } }) => ({ itemId, price, quantity }))
  const completed = ending === 'completed'
  return {
    side,
    provider,
    refreshId,
    observedAt,
    currency,
    usdRate,
    entries,
    completed,
    ...(appendedAt !== undefined && { appendedAt }),
  }
}

/** A sale; by default an item without details, sold in dollars. */
export const sold = (members: Partial<SaleObserved> = {}): SaleObserved => ({
  provider: 'provider_02',
  sale_id: 's1',
  market_hash_name: 'AK-47 | Redline (Field-Tested)',
  phase: null,
  price: 725,
  currency: 'USD',
  usd_rate: '1',
  sold_at: 1_772_582_400_000,
  observed_at: 1_772_582_500_000,
  float: null,
  paint_seed: null,
  stickers: null,
  charms: null,
  inspect_in_game: null,
  screenshot_front: null,
  screenshot_back: null,
  ...members,
})

export const saleRecord = (codec: Codec, sale: SaleObserved): Outgoing => ({
  topic: 'sales',
  key: sale.provider,
  value: codec.encode(saleObserved, sale),
})

/** A table of exchange rates as ingest publishes it; a dollar is a dollar. */
export const ratesRecord = (codec: Codec, as_of: number, rates: Record<string, string> = {}): Outgoing => {
  const table = { as_of, source: 'test', rates: { USD: '1', ...rates } }
  return { topic: 'fx', key: 'USD', value: codec.encode(fxRatesPublished, table) }
}

/** A change of the book; by default provider p asks 1.00 USD for item 1 in refresh r. */
export const changed = (members: Partial<BookChanged> = {}): BookChanged => ({
  side: 'ask',
  provider: 'p',
  item_id: 1,
  change: 'added',
  price: 100,
  currency: 'USD',
  price_micro_usd: 1_000_000,
  usd_rate: '1',
  quantity: 1,
  previous_micro_usd: null,
  previous_quantity: 0,
  seen_at: 1_772_573_670_549,
  refresh_id: 'r',
  url: null,
  source_partition: 0,
  source_offset: 0,
  source_index: 0,
  ...members,
})

export const marked = (members: Partial<RefreshMarked> = {}): RefreshMarked => ({
  side: 'ask',
  provider: 'p',
  refresh_id: 'r',
  last_updated: 1_772_573_670_549,
  source_partition: 0,
  source_offset: 0,
  catalog_version: 'numbers',
  ...members,
})

export const bookChangeRecord = (codec: Codec, change: BookChanged | OfferUrlChanged): Outgoing => ({
  topic: 'bookChanges',
  key: String(change.item_id),
  partition: partitionOfItem(change.item_id),
  value: 'change' in change ? codec.encode(bookChanged, change) : codec.encode(offerUrlChanged, change),
})

/** A marker as the book publishes it: in every partition. */
export function markerRecords(codec: Codec, marker: RefreshMarked): Outgoing[] {
  const value = codec.encode(refreshMarked, marker)
  return Array.from({ length: ITEM_PARTITIONS }, (_, partition) => ({
    topic: 'bookChanges',
    key: `refresh|${marker.provider}`,
    partition,
    value,
  }))
}

/** The partition of the book's changelog in which a provider's asks or bids are. */
export const changelogPartition = (side: Side, provider: string): number =>
  partitionOf(provider, PROVIDER_PARTITIONS) + (side === 'ask' ? 0 : PROVIDER_PARTITIONS)

export function bookRowRecord(codec: Codec, change: BookChanged | OfferUrlChanged): Outgoing {
  const { side, provider, item_id, price, currency, price_micro_usd, quantity, seen_at, url } = change
  const row =
    price === null || price_micro_usd === null ? null : { price, currency, price_micro_usd, quantity, seen_at, url }
  return {
    topic: 'book',
    key: `row|${provider}|${item_id}`,
    partition: changelogPartition(side, provider),
    value: row && codec.encode(bookRowStored, row),
  }
}
