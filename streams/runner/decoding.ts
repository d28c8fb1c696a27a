/**
 * Decodes the records of a batch one by one, unreadable ones included.
 *
 * Invariant: bytes that are no event of ours, and an empty value, are dead letters and never an
 * exception; a registry that does not answer is an exception and never a dead letter; an event of a newer version is neither.
 */
import { type Codec, type Decoded, DecodeError, UnknownEvent } from '#infra/kafka/codec.ts'
import { decodeKnown, decodeLearning } from '#infra/kafka/learning.ts'
import { allTopics, type TopicKey, topics } from '#schemas/topics.ts'
import type { Outcome, UnknownOutcome } from './outcome.ts'

/** A decoded record, or why there is none. */
export type DecodeResult = Decoded | Outcome | UnknownOutcome

const EMPTY: Outcome = { kind: 'deadLetter', reason: 'empty', detail: 'the record has no value' }

/** Decodes a record at once; undefined when its writer's schema must be fetched first. */
export function decodeNow(codec: Codec, value: Buffer | null): DecodeResult | undefined {
  if (value === null) return EMPTY
  try {
    return decodeKnown(codec, value)
  } catch (error) {
    return outcomeOf(error)
  }
}

/** Decodes a record after fetching its writer's schema. */
export async function decodeSlowly(codec: Codec, value: Buffer | null): Promise<DecodeResult> {
  if (value === null) return EMPTY
  try {
    return await decodeLearning(codec, value)
  } catch (error) {
    return outcomeOf(error)
  }
}

const namesIn = new Map(allTopics.map(({ name, events }) => [name, new Set(events.map(event => event.name))]))

/** The result, unless it is an event that this version knows but does not expect in this topic: a newer version has put it there. */
export const expectedIn = (topic: TopicKey, result: DecodeResult): DecodeResult =>
  !isDecoded(result) || namesIn.get(topics[topic].name)?.has(result.event)
    ? result
    : { kind: 'unknown', event: result.event }

/** Whether the result is a decoded record, not an outcome. */
export const isDecoded = (result: DecodeResult): result is Decoded => !('kind' in result)

function outcomeOf(error: unknown): Outcome | UnknownOutcome {
  if (error instanceof UnknownEvent) return { kind: 'unknown', event: error.event }
  if (!(error instanceof DecodeError)) throw error
  return { kind: 'deadLetter', reason: 'undecodable', detail: error.message }
}
