/**
 * Decoded rows of the live view by item, kept while their text is unchanged; the store holds a bounded number of items and evicts the
 * least recently requested one. Rows of an item are in the order of their providers' keys.
 */
import type { Side } from '#schemas/events/book-changed.ts'
import { decodeRow, type LiveHead, type LiveRow, SEPARATOR } from './table.ts'

export interface LiveEntry {
  itemId: number
  provider: string
  row: LiveRow
  /** When the row was last known to be listed, in milliseconds: its change, or the provider's last refresh. */
  lastUpdatedAt: number
}

/** The entries of an item: the same object for as long as nothing in them changes, so that answers made of them are kept with it. */
export interface LiveItem {
  readonly itemId: number
  readonly entries: readonly LiveEntry[]
  /** Bodies by what they depend on beside the entries; bounded by who makes them. */
  readonly answers: Map<string, Buffer>
}

export interface ItemRows {
  stamp: string
  readonly text: string
  readonly rows: readonly (readonly [provider: string, row: LiveRow])[]
  /** As it was last read, and under which head. */
  read?: { item: LiveItem; head: LiveHead }
}

export type RowStore = ReturnType<typeof openRowStore>

export const liveEntryOf = (side: Side, itemId: number, provider: string, row: LiveRow, head: LiveHead): LiveEntry => ({
  itemId,
  provider,
  row,
  lastUpdatedAt: Math.max(row.seenAt, head[side][provider] ?? 0),
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
    /** Keeps an item's rows as of a stamp; those of one that passes only where it was kept before. */
    put(key: string, stamp: string, text: string, isPassing = false): ItemRows {
      const before = items.get(key)
      if (before?.text === text) {
        before.stamp = stamp
        return touch(key, before)
      }
      const item = { stamp, text, rows: decodeRows(text) }
      if (before === undefined && isPassing) return item
      const [oldest] = items.keys()
      if (before === undefined && oldest !== undefined && items.size >= capacity) items.delete(oldest)
      return touch(key, item)
    },
  }
}

function decodeRows(text: string): ItemRows['rows'] {
  const parts = text === '' ? [] : text.split(SEPARATOR)
  const rows: [string, LiveRow][] = []
  for (let i = 0; i + 1 < parts.length; i += 2) rows.push([parts[i] as string, decodeRow(parts[i + 1] as string)])
  return rows.sort(([a], [b]) => (a < b ? -1 : 1))
}
