/**
 * Decoded rows of the live view, kept while their text is unchanged.
 *
 * A row object lives as long as its text, so whatever is derived from it (services/api/listing-text.ts keeps
 * serialised members on it) is derived once. Rows of an item are in the order of their providers' keys; the store
 * holds a bounded number of items and evicts the least recently requested one.
 */
import type { Side } from '#schemas/events/book-changed.ts'
import { decodeRow, type LiveHead, type LiveRow, SEPARATOR } from './table.ts'

/** A provider's row, with room for what is derived from it. */
export interface CachedRow {
  readonly provider: string
  readonly text: string
  readonly row: LiveRow
  /** Texts of the row by variant (currency, rate, members). */
  readonly serialised: { variant: string; text: string }[]
}

export interface LiveEntry {
  itemId: number
  listed: CachedRow
  /** When the provider was last refreshed, in milliseconds. */
  lastUpdatedAt: number
}

export function liveEntryOf(side: Side, itemId: number, listed: CachedRow, head: LiveHead): LiveEntry {
  return { itemId, listed, lastUpdatedAt: lastUpdatedAt(side, listed, head) }
}

/** When a row was last known to be listed: its change, or the provider's last refresh. */
export const lastUpdatedAt = (side: Side, listed: CachedRow, head: LiveHead): number =>
  Math.max(listed.row.seenAt, head[side][listed.provider] ?? 0)

export interface ItemRows {
  stamp: string
  readonly text: string
  readonly rows: readonly CachedRow[]
  /** The entries last made of the rows, and of which head; the caller decides whether they are still valid. */
  made?: { entries: readonly LiveEntry[]; head: unknown }
}

export type RowStore = ReturnType<typeof openRowStore>

export const cachedRow = (provider: string, text: string): CachedRow => ({
  provider,
  text,
  row: decodeRow(text),
  serialised: [],
})

export function openRowStore(capacity: number) {
  const items = new Map<string, ItemRows>()
  const touch = (key: string, item: ItemRows): ItemRows => {
    items.delete(key)
    items.set(key, item)
    return item
  }
  return {
    get(key: string): ItemRows | undefined {
      const item = items.get(key)
      return item && touch(key, item)
    },
    /** Keeps an item's rows as of a stamp; a row whose text is unchanged stays the same object. */
    put(key: string, stamp: string, text: string): ItemRows {
      const before = items.get(key)
      if (before?.text === text) {
        before.stamp = stamp
        return touch(key, before)
      }
      const [oldest] = items.keys()
      if (before === undefined && oldest !== undefined && items.size >= capacity) items.delete(oldest)
      return touch(key, { stamp, text, rows: decodeRows(text, before?.rows ?? []) })
    },
  }
}

function decodeRows(text: string, before: readonly CachedRow[]): CachedRow[] {
  if (text === '') return []
  const rowsBefore = new Map(before.map(listed => [listed.provider, listed]))
  const parts = text.split(SEPARATOR)
  const rows: CachedRow[] = []
  for (let i = 0; i + 1 < parts.length; i += 2) {
    const [provider, rowText] = [parts[i] as string, parts[i + 1] as string]
    const same = rowsBefore.get(provider)
    rows.push(same?.text === rowText ? same : cachedRow(provider, rowText))
  }
  return rows.sort((a, b) => (a.provider < b.provider ? -1 : 1))
}
