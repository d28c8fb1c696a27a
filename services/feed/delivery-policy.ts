/**
 * Delivers a live event to one subscriber: at once, with its id, or conflated, which keeps the latest of each row for a slow client.
 *
 * A conflated client that applies what it gets has the same rows as one that got every change; a row that appeared and went before
 * it was delivered is never delivered.
 * Invariant: all that waits here counts against the subscriber's cap, and what does not fit ends its stream.
 */
import type { BookChanged } from '#schemas/events/book-changed.ts'
import type { EventStream, SendOutcome } from './event-stream.ts'
import type { FeedRequest } from './feed-request.ts'
import type { FeedChange } from './feed-topics.ts'
import { changesFrames, type FrameItems } from './frames.ts'

/** Delivers a subscriber's events, in their order; `identified` gives the same bytes with the event's id. */
export type DeliveryPolicy = (event: {
  bytes: Buffer
  identified(): Buffer
  changes(): readonly FeedChange[]
}) => SendOutcome

/** Bytes that may wait on a conflating stream before changes do. */
const CONFLATE_ABOVE_BYTES = 128 * 1024
const CONFLATED_AT_ONCE = 500
/** A waiting row with its change, about. */
const ROW_BYTES = 256

/** Opens the policy that a request asks for; `capBytes` bounds all that waits. */
export function openDeliveryPolicy(
  stream: EventStream,
  { options: { conflate, resume }, subscription: { side } }: Pick<FeedRequest, 'options' | 'subscription'>,
  items: FrameItems & { capBytes: number },
): DeliveryPolicy {
  if (!conflate) return ({ bytes, identified }) => stream.send(resume ? identified() : bytes)
  const waiting = openConflation(Math.ceil(items.capBytes / ROW_BYTES))
  stream.onDrain(() => {
    while (waiting.size() > 0 && stream.waiting() < CONFLATE_ABOVE_BYTES) {
      for (const { bytes } of changesFrames(side, waiting.pop(CONFLATED_AT_ONCE), items)) stream.send(bytes)
    }
  })
  return ({ bytes, changes }) => {
    if (waiting.size() === 0 && stream.waiting() < CONFLATE_ABOVE_BYTES) return stream.send(bytes)
    // No other than streams of asks and bids conflate.
    return waiting.add(changes() as readonly BookChanged[]) ? 'queued' : stream.giveUp()
  }
}

/** Changes that wait, one per row at most; `rowsMax` rows at most. */
function openConflation(rowsMax: number) {
  const rows = new Map<string, BookChanged>()
  return {
    /** Adds changes; false when there is no room for them. */
    add(changes: readonly BookChanged[]): boolean {
      for (const change of changes) {
        const key = `${change.provider}|${change.item_id}`
        const merged = merge(rows.get(key), change)
        // A row moves to the end, so that a provider's moments stay in order.
        rows.delete(key)
        if (merged) rows.set(key, merged)
      }
      return rows.size <= rowsMax
    },
    pop(max: number): BookChanged[] {
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
