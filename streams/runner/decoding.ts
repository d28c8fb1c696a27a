/**
 * Decodes the records of a batch one by one, unreadable ones included.
 *
 * Invariant: bytes that are no event of ours, and an empty value, are dead letters and never an
 * exception; a registry that does not answer is an exception and never a dead letter; an event of a newer version is neither.
 */
import { type Codec, type Decoded, DecodeError, UnknownEvent } from '#infra/kafka/codec.ts'
import { decodeKnown, decodeLearning } from '#infra/kafka/learning.ts'
import { allTopics, type TopicKey, topics } from '#schemas/topics.ts'
import type { Outcome } from './outcome.ts'

const EMPTY: Outcome = { kind: 'deadLetter', reason: 'empty', detail: 'the record has no value' }

/** Decodes a record at once; undefined when its writer's schema must be fetched first. */
export function decodeNow(codec: Codec, value: Buffer | null): Decoded | Outcome | undefined {
  if (value === null) return EMPTY
  try {
    return decodeKnown(codec, value)
  } catch (error) {
    return outcomeOf(error)
  }
}

/** Decodes a record after fetching its writer's schema. */
export async function decodeSlowly(codec: Codec, value: Buffer | null): Promise<Decoded | Outcome> {
  if (value === null) return EMPTY
  try {
    return await decodeLearning(codec, value)
  } catch (error) {
    return outcomeOf(error)
  }
}

const namesIn = new Map(allTopics.map(({ name, events }) => [name, new Set(events.map(event => event.name))]))

/** The result, unless it is an event that this version knows but does not expect in this topic: a newer version has put it there. */
export function expectedIn(topic: TopicKey, result: Decoded | Outcome): Decoded | Outcome {
  const { name } = topics[topic]
  if (!isDecoded(result) || namesIn.get(name)?.has(result.event)) return result
  const { event } = result
  return { kind: 'unknown', event, detail: `this version does not expect the event ${event} in ${name}` }
}

/** Whether the result is a decoded record, not an outcome. */
export const isDecoded = (result: Decoded | Outcome): result is Decoded => !('kind' in result)

function outcomeOf(error: unknown): Outcome {
  if (error instanceof UnknownEvent) return { kind: 'unknown', event: error.event, detail: error.message }
  if (!(error instanceof DecodeError)) throw error
  return { kind: 'deadLetter', reason: 'undecodable', detail: error.message }
}
