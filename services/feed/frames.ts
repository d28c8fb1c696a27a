/**
 * Server-Sent Events as bytes: the events of the specification, pings, closing comments.
 *
 * Rules: DECISIONS.md, "Feeds". Every frame ends with an empty line, and no value can break out of its line, because JSON
 * escapes line ends.
 */
import type { BookChanged, Change, Side } from '#schemas/events/book-changed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import { toMinor, USD_RATE } from '#schemas/values/money.ts'

const EVENT_NAMES: Record<Side, string> = { ask: 'prices.changed', bid: 'bids.changed' }

/** The comment that keeps an idle connection open. */
export const PING = Buffer.from(': ping\n\n')

/** The end of a stream: a comment in one line for people, and when to reconnect for clients. */
export const partingFrame = (text: string, retryMs?: number): Buffer =>
  Buffer.from(`${retryMs === undefined ? '' : `retry: ${retryMs}\n`}: ${text}\n\n`)

/** The first event of every connection. */
export function readyFrame(ready: { providers: readonly string[]; itemIds: number; names: number }): Buffer {
  const data = {
    providers: ready.providers,
    item_ids_filter_count: ready.itemIds,
    market_hash_names_filter_count: ready.names,
  }
  return Buffer.from(`event: ready\ndata: ${JSON.stringify(data)}\n\n`)
}

/** The event of some changes of one provider; `items` are texts of an {@link ItemText}. */
export function changedFrame(side: Side, provider: string, seenAt: number, items: readonly string[]): Buffer {
  const head = `{"provider":${JSON.stringify(provider)},"seen_at":"${formatInstant(seenAt)}","items":[`
  return Buffer.from(`event: ${EVENT_NAMES[side]}\ndata: ${head}${items.join(',')}]}\n\n`)
}

/** What `items[]` holds of a row. */
interface FeedRow {
  /** Hundredths of a US dollar; null when it is removed. */
  price: number | null
  quantity: number
  change: Change
}

/** The row that a change leads to. */
export const rowOf = ({ price_micro_usd: micro, quantity, change }: BookChanged): FeedRow => ({
  price: micro === null ? null : toMinor(micro, USD_RATE),
  quantity,
  change,
})

/** Makes one member of `items[]` as JSON. */
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

/** An event with an id before it, for clients that may resume after it. */
export const identifiedFrame = (frame: Buffer, id: string): Buffer => Buffer.concat([Buffer.from(`id: ${id}\n`), frame])

/** Says that the missed changes cannot be delivered: the client must fetch the current state. */
export const resyncFrame = (reason: 'expired' | 'unknown'): Buffer =>
  Buffer.from(`event: resync\ndata: ${JSON.stringify({ reason })}\n\n`)

/** Says that the current state is complete and changes follow. */
export const snapshotEndFrame = (items: number): Buffer =>
  Buffer.from(`event: snapshot.end\ndata: ${JSON.stringify({ items })}\n\n`)

/** Says that a replay is complete. */
export const replayEndFrame = (items: number): Buffer =>
  Buffer.from(`event: replay.end\ndata: ${JSON.stringify({ items })}\n\n`)
