/**
 * The current state that a stream with `snapshot=true` begins with, and the position in the log that it reflects.
 *
 * What a partition contributes is its state at exactly the offset that the position names: a few items by their rows, the
 * whole market by the segments of one manifest, which stay for minutes after they were replaced. A view that is not
 * there throws; it is never an empty state.
 */
import type { Side } from '#schemas/events/book-changed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { toMinor, USD_RATE } from '#schemas/values/money.ts'
import type { LiveEntry, LiveReader } from '#streams/live-view/reader.ts'
import { changedFrame, type ItemText } from './frames.ts'
import { EVENT_ITEMS_MAX, type Subscription } from './hub.ts'
import type { LogPosition } from './log-position.ts'

/** A state that does not change. */
export interface PinnedState {
  /** All changes before it are in the state, and no other. */
  position: LogPosition
  /** The state as events, made as they are taken. */
  events(): AsyncGenerator<{ frame: Buffer; items: number }, void, void>
}

/** The live view, for streams. */
export interface LiveState {
  /** Pins what a subscriber asks for; rejects when the view is not there. */
  pin(wanted: Subscription, providers: readonly string[]): Promise<PinnedState>
}

/** What states are made of. */
interface LiveStateOptions {
  live: Pick<LiveReader, 'pinItems' | 'pinPositioned' | 'readSegment'>
  /** Of the changes that streams read. */
  topicId: string
  items(): readonly CatalogItem[]
  itemOf(itemId: number): CatalogItem | undefined
  itemText: ItemText
}

/** A row of the state. */
interface StateRow {
  itemId: number
  price: number
  quantity: number
}

/** Opens the states of the live view. */
export function openLiveState(options: LiveStateOptions): LiveState {
  return {
    pin: (wanted, providers) =>
      wanted.isFiltered ? pinItems(options, wanted, new Set(providers)) : pinAll(options, wanted.side, providers),
  }
}

/** The rows of a provider and when it was last refreshed, as events. */
function* eventsOf(
  { itemOf, itemText }: LiveStateOptions,
  listing: { side: Side; provider: string; seenAt: number; rows: readonly StateRow[] },
): Generator<{ frame: Buffer; items: number }, void, void> {
  const texts = listing.rows.flatMap(({ itemId, price, quantity }) => {
    const item = itemOf(itemId)
    return item ? [itemText(item, { price, quantity, change: 'added' })] : []
  })
  for (let from = 0; from < texts.length; from += EVENT_ITEMS_MAX) {
    const part = texts.slice(from, from + EVENT_ITEMS_MAX)
    yield { frame: changedFrame(listing.side, listing.provider, listing.seenAt, part), items: part.length }
  }
}

async function pinAll(options: LiveStateOptions, side: Side, providers: readonly string[]): Promise<PinnedState> {
  const { live, topicId } = options
  const { segments, next } = await live.pinPositioned(side, providers, topicId)
  return {
    position: { next, behind: new Map() },
    async *events() {
      for (const segment of segments) {
        const { provider, entry } = segment
        const text = await live.readSegment(segment)
        yield* eventsOf(options, { side, provider, seenAt: entry.updated, rows: rowsOf(side, text) })
      }
    },
  }
}

/** The lines of a segment: entries of schemas/api/listing.ts in US dollars. */
function rowsOf(side: Side, text: string): StateRow[] {
  return text
    .split('\n')
    .filter(Boolean)
    .map(line => {
      const entry = JSON.parse(line)
      return side === 'ask'
        ? { itemId: entry.item_id, price: entry.lowest_ask, quantity: entry.quantity }
        : { itemId: entry.item_id, price: entry.highest_bid, quantity: entry.num_bids }
    })
}

async function pinItems(
  options: LiveStateOptions,
  { side, itemIds, names }: Subscription,
  providers: ReadonlySet<string>,
): Promise<PinnedState> {
  const named = names.size === 0 ? [] : options.items().filter(item => names.has(item.market_hash_name))
  const ids = new Set([...itemIds, ...named.map(({ item_id }) => item_id)])
  const { entries, next } = await options.live.pinItems(side, ids, options.topicId)
  const wanted = entries.filter(({ listed }) => providers.has(listed.provider))
  const byPartition = Map.groupBy(wanted, ({ itemId }) => partitionOfItem(itemId))
  const listings = [...byPartition.values()].flatMap(inPartition =>
    [...Map.groupBy(inPartition, ({ listed }) => listed.provider)].map(([provider, own]) => ({
      side,
      provider,
      seenAt: Math.max(...own.map(({ lastUpdatedAt }) => lastUpdatedAt)),
      rows: own.map(stateRowOf),
    })),
  )
  return {
    position: { next, behind: new Map() },
    async *events() {
      for (const listing of listings) yield* eventsOf(options, listing)
    },
  }
}

const stateRowOf = ({ itemId, listed: { row } }: LiveEntry): StateRow => ({
  itemId,
  price: toMinor(row.priceMicroUsd, USD_RATE),
  quantity: row.quantity,
})
