/**
 * The outcomes of a record, and what the runner does on each.
 *
 * A closed set: anything else is thrown, which means a bug or a lost dependency and ends the process after bounded tries.
 */
import type { TopicKey } from '#schemas/topics.ts'

export interface StreamRecord {
  topic: TopicKey
  partition: number
  offset: number
  key: string | null
  event: string
  // biome-ignore lint/suspicious/noExplicitAny: the event's name decides the shape; processors narrow by it.
  value: any
  raw: Buffer
  /**
   * When the log took it, in milliseconds since the epoch: no event time, but an order between topics and the latest
   * that an event's own time can honestly be (schemas/values/event-time.ts).
   */
  appendedAt: number
  /** Of rows that rest on it: rises with the offset, and above all versions of the topics of its name that were deleted. */
  version: number
}

/** ok: taken. skip: not wanted, counted by reason. deadLetter: written to dead-letters with its reason. */
export type Outcome =
  | { kind: 'ok' }
  | { kind: 'skip'; reason: string }
  | { kind: 'deadLetter'; reason: string; detail: string }
  /** The catalog lacks the name: written to market.unresolved, to be replayed after a catalog update. */
  | { kind: 'unresolved'; name: string; phase: string | null; provider: string; observedAt: number }
  /** Not now: what came before it is written, and the record comes again after the wait. */
  | { kind: 'retry'; afterMs: number }

/** An event that this version does not know: the partition waits for a newer one (streams/runner/unknown-events.ts). */
export interface UnknownOutcome {
  kind: 'unknown'
  event: string
}

export const OK: Outcome = { kind: 'ok' }
