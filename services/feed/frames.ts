/**
 * Server-Sent Events as bytes: the events of the specification, pings, parting words.
 *
 * Pure. Source: interface.md "Feed events". Invariant: every frame ends with an empty line, and no value
 * can break out of its line, because JSON escapes line ends.
 */
import type { BookChanged, Side } from '#schemas/events/book-changed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import { toMinor, USD_RATE } from '#schemas/values/money.ts'

const EVENT_NAMES: Record<Side, string> = { ask: 'prices.changed', bid: 'bids.changed' }

/** The comment that keeps an idle connection open. */
export const PING = Buffer.from(': ping\n\n')

/** The end of a stream: a comment in one line, which people read, and when to come back, which clients obey. */
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

/** The event of some changes of one provider; `items` are texts of {@link itemText}. */
export function changedFrame(side: Side, provider: string, seenAt: number, items: readonly string[]): Buffer {
  const head = `{"provider":${JSON.stringify(provider)},"seen_at":"${formatInstant(seenAt)}","items":[`
  return Buffer.from(`event: ${EVENT_NAMES[side]}\ndata: ${head}${items.join(',')}]}\n\n`)
}

/** An item's unchanging members; found by the object, so a republished item makes a new text. */
const identities = new WeakMap<CatalogItem, string>()

/** One member of `items[]` as JSON; the price in hundredths of a US dollar. */
export function itemText(item: CatalogItem, change: BookChanged): string {
  let identity = identities.get(item)
  if (identity === undefined) {
    const { item_id, market_hash_name, phase } = item
    identity = JSON.stringify({ item_id, market_hash_name, phase }).slice(0, -1)
    identities.set(item, identity)
  }
  const { price_micro_usd: micro, quantity } = change
  const price = micro === null ? 'null' : String(toMinor(micro, USD_RATE))
  return `${identity},"price":${price},"qty":${quantity},"change":"${change.change}"}`
}
