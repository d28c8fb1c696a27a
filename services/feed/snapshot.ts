/**
 * The current state that a stream with `snapshot=true` begins with, and the position in the log that it reflects.
 *
 * A partition contributes its state at exactly the offset that the position names: a few items by their rows, the
 * whole market by the segments of one manifest, which stay for minutes after they were replaced. A view that is not
 * there throws; it is never an empty state.
 */
import type { Side } from '#schemas/events/book-changed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { toMinor, USD_RATE } from '#schemas/values/money.ts'
import type { LiveEntry, LiveReader } from '#streams/live-view/reader.ts'
import type { Subscription } from './feed-request.ts'
import { type FrameItems, itemsFrames } from './frames.ts'
import type { LogPosition } from './log-position.ts'

export interface SnapshotState {
  /** All changes before it are in the state, and no other. */
  position: LogPosition
  /** The state as events, made as they are sent. */
  events(): AsyncGenerator<{ frame: Buffer; items: number }, void, void>
}

interface SnapshotParts extends FrameItems {
  live: Pick<LiveReader, 'pinItems' | 'pinPositioned' | 'readSegment'>
  /** Of the changes that streams read. */
  topicId: string
  items(): readonly CatalogItem[]
}

interface StateRow {
  itemId: number
  price: number
  quantity: number
}

/** Pins what a subscriber asks for; rejects when the view is not there. */
export type PinState = (subscription: Subscription, providers: readonly string[]) => Promise<SnapshotState>

export const openPinState =
  (parts: SnapshotParts): PinState =>
  async (subscription, providers) => {
    const { side } = subscription
    if (side === 'sale') throw new Error('sales have no state')
    return subscription.isFiltered
      ? pinItems(parts, { ...subscription, side }, new Set(providers))
      : pinAll(parts, side, providers)
  }

/** The rows of a provider and when it was last refreshed, as events. */
function* eventsOf(
  { itemOf, itemText }: FrameItems,
  { rows, ...listing }: { side: Side; provider: string; seenAt: number; rows: readonly StateRow[] },
): Generator<{ frame: Buffer; items: number }, void, void> {
  const texts = rows.flatMap(({ itemId, price, quantity }) => {
    const item = itemOf(itemId)
    return item ? [itemText(item, { price, quantity, change: 'added' })] : []
  })
  for (const { bytes, ends } of itemsFrames(listing, texts)) yield { frame: bytes, items: ends.length }
}

async function pinAll(parts: SnapshotParts, side: Side, providers: readonly string[]): Promise<SnapshotState> {
  const { live, topicId } = parts
  const { segments, next } = await live.pinPositioned(side, providers, topicId)
  return {
    position: { next, behind: new Map() },
    async *events() {
      for (const segment of segments) {
        const { provider, entry } = segment
        const rows = rowsOf(side, await live.readSegment(segment))
        yield* eventsOf(parts, { side, provider, seenAt: entry.updated, rows })
      }
    },
  }
}

/** The lines of a segment: entries of schemas/api/listing.ts in US dollars. */
const rowsOf = (side: Side, text: string): StateRow[] =>
  text
    .split('\n')
    .filter(Boolean)
    .map(line => {
      const entry = JSON.parse(line)
      return side === 'ask'
        ? { itemId: entry.item_id, price: entry.lowest_ask, quantity: entry.quantity }
        : { itemId: entry.item_id, price: entry.highest_bid, quantity: entry.num_bids }
    })

async function pinItems(
  parts: SnapshotParts,
  { side, itemIds, names }: Subscription & { side: Side },
  providers: ReadonlySet<string>,
): Promise<SnapshotState> {
  const named = names.size === 0 ? [] : parts.items().filter(item => names.has(item.market_hash_name))
  const ids = new Set([...itemIds, ...named.map(({ item_id }) => item_id)])
  const { entries, next } = await parts.live.pinItems(side, ids, parts.topicId)
  const wanted = entries.filter(({ provider }) => providers.has(provider))
  const moments = Map.groupBy(wanted, ({ provider, lastUpdatedAt }) => `${lastUpdatedAt} ${provider}`)
  return {
    position: { next, behind: new Map() },
    async *events() {
      for (const own of moments.values()) {
        const { provider, lastUpdatedAt: seenAt } = own[0] as LiveEntry
        const rows = own.map(({ itemId, row }) => {
          return { itemId, price: toMinor(row.priceMicroUsd, USD_RATE), quantity: row.quantity }
        })
        yield* eventsOf(parts, { side, provider, seenAt, rows })
      }
    },
  }
}
