/**
 * What is done with a live event for one subscriber: it is sent, sent with its id, or conflated.
 *
 * Invariant: all that waits here counts against the subscriber's cap, and what does not fit ends its stream.
 */
import type { BookChanged } from '#schemas/events/book-changed.ts'
import { openConflation } from './conflation.ts'
import type { EventStream, SendOutcome } from './event-stream.ts'
import type { FeedChange } from './feed-topics.ts'

/** An event for some subscribers. */
interface LiveEvent {
  bytes: Buffer
  /** The same with its id. */
  identified(): Buffer
  changes(): readonly FeedChange[]
}

/** What is done with a subscriber's events, in their order. */
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
