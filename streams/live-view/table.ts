/**
 * The Redis keys of the live view and the codec of its rows.
 *
 * Reads and writes nothing. All keys of one partition share the hash tag `{live:<partition>}`, so
 * they live in one Redis Cluster slot and one atomic write may hold them all. Rows and listings carry a
 * generation: a rebuild fills a new one beside the old, and the head names the one to read.
 * Sole writer: streams/live-view.
 */
import type { Side } from '../events/book-changed.ts'

/** One provider's live row for an item. */
export interface LiveRow {
  /** Hundredths of `currency`. */
  price: number
  currency: string
  priceMicroUsd: number
  quantity: number
  /** When price or quantity last changed. */
  seenAt: number
  url: string | null
}

/** What a partition's view reflects. Its absence means that the view is not there, not that it is empty. */
export interface LiveHead {
  /** The generation whose rows are complete. */
  generation: number
  /**
   * The oldest of the generations before it that each followed a whole one: a snapshot of any since then may be read
   * until there is a new one.
   */
  succeeds?: number
  /** The next offset of market.book-changes that the rows do not reflect yet. */
  next: number
  /** Provider → when it was last refreshed. */
  ask: Record<string, number>
  bid: Record<string, number>
}

/** Key of a partition's head, a JSON text of {@link LiveHead}. */
export const headKey = (partition: number, prefix = ''): string => `${prefix}{live:${partition}}:head`

/** Key of an item's hash: provider → row. */
export const itemKey = (partition: number, generation: number, side: Side, itemId: number, prefix = ''): string =>
  `${prefix}{live:${partition}}:${generation}:${side}:item:${itemId}`

/** Key of a provider's sorted set of item ids (score = id): listing order, counts and paging. */
export const listingKey = (partition: number, generation: number, side: Side, provider: string, prefix = ''): string =>
  `${prefix}{live:${partition}}:${generation}:${side}:list:${provider}`

/** Key of the counter that names generations, so that none is used twice. */
export const generationsKey = (partition: number, prefix = ''): string => `${prefix}{live:${partition}}:generations`

/** Key of the lease of a rebuild: while it is held, rows of generations above the head's belong to that rebuild. */
export const rebuildKey = (partition: number, prefix = ''): string => `${prefix}rebuild:{live:${partition}}`

/** The generation that a key of a partition belongs to; undefined for the head and the counter. */
export function generationOf(key: string, partition: number, prefix = ''): number | undefined {
  const generation = Number(key.slice(`${prefix}{live:${partition}}:`.length).split(':')[0])
  return Number.isInteger(generation) ? generation : undefined
}

/** Writes a row as text; most stay below the 64 bytes up to which Redis packs small hashes. */
export function encodeRow(row: LiveRow): string {
  const text = `${row.price}|${row.priceMicroUsd}|${row.quantity}|${row.seenAt}|${row.currency}`
  return row.url === null ? text : `${text}|${row.url}`
}

/** Reads what {@link encodeRow} wrote; throws on anything else, since only one writer exists. */
export function decodeRow(text: string): LiveRow {
  const [price, micro, quantity, seenAt, currency, ...url] = text.split('|')
  if (currency === undefined) throw new Error(`not a live row: ${text}`)
  return {
    price: Number(price),
    currency,
    priceMicroUsd: Number(micro),
    quantity: Number(quantity),
    seenAt: Number(seenAt),
    url: url.length > 0 ? url.join('|') : null,
  }
}
