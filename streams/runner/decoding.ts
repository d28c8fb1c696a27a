/**
 * Decodes the records of a batch one by one, unreadable ones included.
 *
 * Invariant: bytes that are no event of ours, and an empty value, are dead letters and never an
 * exception; an event of a newer version is neither.
 */
import { type Codec, type Decoded, DecodeError, UnknownEvent } from '#infra/kafka/codec.ts'
import { allTopics, type TopicKey, topics } from '#schemas/topics.ts'
import type { Outcome, UnknownOutcome } from './outcome.ts'

/** A decoded record, or why there is none. */
export type DecodeResult = Decoded | Outcome | UnknownOutcome

const eventsIn = new Map(allTopics.map(({ name, events }) => [name, new Set(events.map(event => event.name))]))

/** Decodes a record of a topic; an event that this version does not expect there is one of a newer version. */
export function decodeRecord(codec: Codec, topic: TopicKey, value: Buffer | null): DecodeResult {
  if (value === null) return { kind: 'deadLetter', reason: 'empty', detail: 'the record has no value' }
  try {
    const decoded = codec.decode(value)
    return eventsIn.get(topics[topic].name)?.has(decoded.event) ? decoded : { kind: 'unknown', event: decoded.event }
  } catch (error) {
    if (error instanceof UnknownEvent) return { kind: 'unknown', event: error.event }
    if (!(error instanceof DecodeError)) throw error
    return { kind: 'deadLetter', reason: 'undecodable', detail: error.message }
  }
}

/** Whether the result is a decoded record, not an outcome. */
export const isDecoded = (result: DecodeResult): result is Decoded => !('kind' in result)
