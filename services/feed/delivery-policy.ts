/**
 * What is done with an event for one subscriber: sent, sent with its id, buffered, or conflated.
 *
 * Invariant: all that waits here counts against the subscriber's cap, and what does not fit ends its stream.
 */
import type { BookChanged } from '#schemas/events/book-changed.ts'
import { type Conflation, openConflation } from './conflation.ts'
import type { EventStream } from './event-stream.ts'

/** An event for some subscribers. */
interface FeedEvent {
  frame: Buffer
  /** The same with its id; there when one of them resumes. */
  identified: Buffer | undefined
  changes: readonly BookChanged[]
}

/** What became of an event. */
type SendOutcome = 'queued' | 'over' | 'too_slow'

/** What is done with a subscriber's events, in their order. */
export interface DeliveryPolicy {
  deliver(event: FeedEvent): SendOutcome
}

/** Buffers live events until history has caught up. */
interface PendingBuffer extends DeliveryPolicy {
  /** Delivers what is buffered, and buffers nothing from now on. */
  flush(): SendOutcome
}

/** Bytes that may wait on a conflating stream before changes do. */
const CONFLATE_ABOVE_BYTES = 128 * 1024
const CONFLATED_AT_ONCE = 500
/** A waiting row with its change, about. */
const ROW_BYTES = 256

/** Sends at once. */
export const plainPolicy = (stream: EventStream): DeliveryPolicy => ({ deliver: ({ frame }) => stream.send(frame) })

/** Sends at once, with ids. */
export const resumablePolicy = (stream: EventStream): DeliveryPolicy => ({
  deliver: ({ frame, identified }) => stream.send(identified ?? frame),
})

/** Sends at once while the client keeps up, then the latest of each row when it reads again. */
export function conflatingPolicy(
  stream: EventStream,
  options: { capBytes: number; framesOf(changes: readonly BookChanged[]): Iterable<Buffer> },
): DeliveryPolicy {
  const waiting: Conflation = openConflation(Math.ceil(options.capBytes / ROW_BYTES))
  stream.onDrain(() => {
    while (waiting.size() > 0 && stream.waiting() < CONFLATE_ABOVE_BYTES) {
      for (const frame of options.framesOf(waiting.take(CONFLATED_AT_ONCE))) stream.send(frame)
    }
  })
  return {
    deliver({ frame, changes }) {
      if (waiting.size() === 0 && stream.waiting() < CONFLATE_ABOVE_BYTES) return stream.send(frame)
      return waiting.add(changes) ? 'queued' : stream.giveUp()
    },
  }
}

/** Buffers `capBytes` at most before another policy. */
export function openPendingBuffer(stream: EventStream, policy: DeliveryPolicy, capBytes: number): PendingBuffer {
  let pending: FeedEvent[] | undefined = []
  let bytes = 0
  return {
    deliver(event) {
      if (!pending) return policy.deliver(event)
      bytes += event.frame.length
      if (bytes > capBytes) {
        pending = []
        return stream.giveUp()
      }
      pending.push(event)
      return 'queued'
    },
    flush() {
      const buffered = pending ?? []
      pending = undefined
      for (const event of buffered) {
        const outcome = policy.deliver(event)
        if (outcome !== 'queued') return outcome
      }
      return 'queued'
    },
  }
}
