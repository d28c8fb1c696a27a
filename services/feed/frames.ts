/**
 * Server-Sent Events as bytes (DECISIONS.md, "Feeds"). Every frame ends with an empty line, and no value can break out of its line,
 * because JSON escapes line ends.
 */
import type { BookChanged, Change } from '#schemas/events/book-changed.ts'
import type { FeedSide } from '#schemas/events/feed-advanced.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import { toMinor, USD_RATE } from '#schemas/values/money.ts'
import { recordOfSale } from '#streams/sales/reader.ts'
import type { FeedRequest } from './feed-request.ts'
import type { FeedChange } from './feed-topics.ts'

const EVENT_NAMES: Record<FeedSide, string> = { ask: 'prices.changed', bid: 'bids.changed', sale: 'sales.recorded' }

/** Items of one event at most (DECISIONS.md, "Feeds"). */
const EVENT_ITEMS_MAX = 1_000
/** Of a `data` line: Go's scanner and aiohttp's reader refuse a longer one. */
const LINE_BYTES_MAX = 65_535

export const PING = Buffer.from(': ping\n\n')

/** The end of a stream: a comment in one line for people, and when to reconnect for clients. */
export const partingFrame = (text: string, retryMs?: number): Buffer =>
  Buffer.from(`${retryMs === undefined ? '' : `retry: ${retryMs}\n`}: ${text}\n\n`)

const frameOf = (event: string, data: object): Buffer =>
  Buffer.from(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)

export const readyFrame = (feed: Pick<FeedRequest, 'providers' | 'itemIdsCount' | 'namesCount'>): Buffer =>
  frameOf('ready', {
    providers: feed.providers,
    item_ids_filter_count: feed.itemIdsCount,
    market_hash_names_filter_count: feed.namesCount,
  })

/** Says that the missed changes cannot be delivered: the client must fetch the current state. */
export const resyncFrame = (reason: 'expired' | 'unknown'): Buffer => frameOf('resync', { reason })

export const snapshotEndFrame = (items: number): Buffer => frameOf('snapshot.end', { items })

export const replayEndFrame = (items: number): Buffer => frameOf('replay.end', { items })

export const identifiedFrame = (frame: Buffer, id: string): Buffer => Buffer.concat([Buffer.from(`id: ${id}\n`), frame])

interface FeedRow {
  /** Hundredths of a US dollar; null when it is removed. */
  price: number | null
  quantity: number
  change: Change
}

export const rowOf = ({ price_micro_usd: micro, quantity, change }: BookChanged): FeedRow => ({
  price: micro === null ? null : toMinor(micro, USD_RATE),
  quantity,
  change,
})

/** Makes one member of `items[]` of asks or bids as JSON. */
export type ItemText = (item: CatalogItem, row: FeedRow) => string

/** Keeps each item's unchanging members; found by the object, so a republished item makes a new text. */
export function openItemText(): ItemText {
  const identities = new WeakMap<CatalogItem, string>()
  return (item, { price, quantity, change }) => {
    let identity = identities.get(item)
    if (identity === undefined) {
      const { item_id, market_hash_name, phase } = item
      identity = JSON.stringify({ item_id, market_hash_name, phase }).slice(0, -1)
      identities.set(item, identity)
    }
    return `${identity},"price":${price},"qty":${quantity},"change":"${change}"}`
  }
}

/** An event of rows of one provider and moment, and where in its bytes each row's text ends. */
export interface ItemsFrame {
  bytes: Buffer
  start: number
  ends: Uint32Array
}

const TAIL = ']}\n\n'
const COMMA = Buffer.from(',')

/** The events of rows' texts of one provider and moment, each within the bounds of an event. */
export function* itemsFrames(
  { side, provider, seenAt }: { side: FeedSide; provider: string; seenAt: number },
  texts: readonly string[],
): Generator<ItemsFrame, void, void> {
  const event = `event: ${EVENT_NAMES[side]}\n`
  const head = `data: {"provider":${JSON.stringify(provider)},"seen_at":"${formatInstant(seenAt)}","items":[`
  const start = event.length + Buffer.byteLength(head)
  // The tail's line ends are not of the line.
  const room = LINE_BYTES_MAX - Buffer.byteLength(head) - (TAIL.length - 2)
  for (let from = 0; from < texts.length; ) {
    const ends: number[] = []
    let bytes = -1
    for (let at = from; at < texts.length && ends.length < EVENT_ITEMS_MAX; at++) {
      const more = 1 + Buffer.byteLength(texts[at] as string)
      if (ends.length > 0 && bytes + more > room) break
      bytes += more
      ends.push(start + bytes)
    }
    const own = texts.slice(from, from + ends.length)
    yield { bytes: Buffer.from(`${event}${head}${own.join(',')}${TAIL}`), start, ends: Uint32Array.from(ends) }
    from += ends.length
  }
}

export interface FrameItems {
  itemOf(itemId: number): CatalogItem | undefined
  itemText: ItemText
}

/** The member of `items[]` that a change makes as JSON; a sale is in US dollars. */
export const changeText = (change: FeedChange, item: CatalogItem, itemText: ItemText): string =>
  change.side === 'sale'
    ? JSON.stringify(recordOfSale(change.row, item, 'USD', () => USD_RATE))
    : itemText(item, rowOf(change))

/** The events of changes of any providers and moments of one side, each provider and moment where its first change stands. */
export function* changesFrames(
  side: FeedSide,
  changes: readonly FeedChange[],
  { itemOf, itemText }: FrameItems,
): Generator<ItemsFrame & { seenAt: number }, void, void> {
  for (const own of Map.groupBy(changes, change => `${change.seen_at} ${change.provider}`).values()) {
    const { provider, seen_at: seenAt } = own[0] as FeedChange
    const texts = own.flatMap(change => {
      const item = itemOf(change.item_id)
      return item ? [changeText(change, item, itemText)] : []
    })
    for (const frame of itemsFrames({ side, provider, seenAt }, texts)) yield { ...frame, seenAt }
  }
}

/** The event of some of a frame's rows, by their indexes in ascending order. */
export function pickItems({ bytes, start, ends }: ItemsFrame, indexes: readonly number[]): Buffer {
  if (indexes.length === ends.length) return bytes
  const parts = indexes.flatMap((index, nth) => {
    const text = bytes.subarray(index === 0 ? start : (ends[index - 1] as number) + 1, ends[index])
    return nth === 0 ? [text] : [COMMA, text]
  })
  return Buffer.concat([bytes.subarray(0, start), ...parts, bytes.subarray(ends.at(-1))])
}
