/**
 * Delivers a live event to one subscriber: at once, with its id, or conflated, which keeps the latest of each row for a slow client.
 *
 * A conflated client that applies what it gets has the same rows as one that got every change; a row that appeared and went before
 * it was delivered is never delivered.
 * Invariant: all that waits here counts against the subscriber's cap, and what does not fit ends its stream.
 */
import type { BookChanged } from '#schemas/events/book-changed.ts'
import type { EventStream, SendOutcome } from './event-stream.ts'
import type { FeedChange } from './feed-topics.ts'

/** An event for some subscribers. */
interface LiveEvent {
  bytes: Buffer
  /** The same with its id. */
  identified(): Buffer
  changes(): readonly FeedChange[]
}

/** Takes a subscriber's events, in their order. */
export type DeliveryPolicy = (event: LiveEvent) => SendOutcome

/** Bytes that may wait on a conflating stream before changes do. */
const CONFLATE_ABOVE_BYTES = 128 * 1024
const CONFLATED_AT_ONCE = 500
/** A waiting row with its change, about. */
const ROW_BYTES = 256

/** Sends at once. */
export const plainPolicy =
  (stream: EventStream): DeliveryPolicy =>
  ({ bytes }) =>
    stream.send(bytes)

/** Sends at once, with ids. */
export const resumablePolicy =
  (stream: EventStream): DeliveryPolicy =>
  ({ identified }) =>
    stream.send(identified())

/** Sends at once while the client keeps up, then the latest of each row when it reads again. */
export function conflatingPolicy(
  stream: EventStream,
  options: { capBytes: number; framesOf(changes: readonly BookChanged[]): Iterable<Buffer> },
): DeliveryPolicy {
  const waiting = openConflation(Math.ceil(options.capBytes / ROW_BYTES))
  stream.onDrain(() => {
    while (waiting.size() > 0 && stream.waiting() < CONFLATE_ABOVE_BYTES) {
      for (const frame of options.framesOf(waiting.pop(CONFLATED_AT_ONCE))) stream.send(frame)
    }
  })
  return ({ bytes, changes }) => {
    if (waiting.size() === 0 && stream.waiting() < CONFLATE_ABOVE_BYTES) return stream.send(bytes)
    // No other than streams of asks and bids conflate.
    return waiting.add(changes() as readonly BookChanged[]) ? 'queued' : stream.giveUp()
  }
}

/** Changes that wait, one per row at most. */
interface Conflation {
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
