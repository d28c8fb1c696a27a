/**
 * What is still to be delivered to a slow subscriber with `policy=conflate`: the latest of each row, within a bound.
 *
 * A client that applies what it gets has the same rows as one that got every change; a row that appeared and went before
 * it was delivered is never delivered.
 */
import type { BookChanged } from '#schemas/events/book-changed.ts'

/** Changes that wait, one per row at most. */
export interface Conflation {
  /** Adds changes; false when there is no room for them. */
  add(changes: readonly BookChanged[]): boolean
  /** Removes up to `max` changes, oldest first. */
  pop(max: number): BookChanged[]
  size(): number
}

/** Opens an empty one for at most `rowsMax` rows. */
export function openConflation(rowsMax: number): Conflation {
  const rows = new Map<string, BookChanged>()
  return {
    add(changes) {
      for (const change of changes) {
        const key = `${change.provider}|${change.item_id}`
        const merged = merge(rows.get(key), change)
        // A row moves to the end, so that a provider's moments stay in order.
        rows.delete(key)
        if (merged) rows.set(key, merged)
      }
      return rows.size <= rowsMax
    },
    pop(max) {
      const oldest = [...rows.entries().take(max)]
      for (const [key] of oldest) rows.delete(key)
      return oldest.map(([, change]) => change)
    },
    size: () => rows.size,
  }
}

/** One change that replaces two of the same row; undefined when they undo each other. */
function merge(before: BookChanged | undefined, after: BookChanged): BookChanged | undefined {
  if (before === undefined) return after
  if (before.change === 'added') return after.change === 'removed' ? undefined : { ...after, change: 'added' }
  if (before.change === 'removed' && after.change === 'added') return { ...after, change: 'updated' }
  return after
}
