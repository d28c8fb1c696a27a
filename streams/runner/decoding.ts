/**
 * Decodes records one by one, unreadable ones included, and folds them.
 *
 * Invariant: bytes that are no event of ours, and an empty value, are dead letters and never an
 * exception; an event of a newer version is neither.
 */
import { type Codec, type Decoded, DecodeError, UnknownEvent } from '#infra/kafka/codec.ts'
import type { LogRecord } from '#infra/kafka/range-reader.ts'
import { allTopics, type TopicKey, topics } from '#schemas/topics.ts'
import type { Outcome, StreamRecord, UnknownOutcome } from './outcome.ts'
import type { Source } from './positions.ts'

type DecodeResult = Decoded | Outcome | UnknownOutcome

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

export const isDecoded = (result: DecodeResult): result is Decoded => !('kind' in result)

export function foldRecord(
  codec: Codec,
  { topic, partition }: Source,
  { offset, key, value, timestamp }: Pick<LogRecord, 'offset' | 'key' | 'value' | 'timestamp'>,
  version: number,
  fold: (record: StreamRecord) => Outcome,
): Outcome | UnknownOutcome {
  const decoded = decodeRecord(codec, topic, value)
  if (!isDecoded(decoded)) return decoded
  // Written out: a spread for each record would cost as much as its decoding.
  return fold({
    topic,
    partition,
    offset,
    version,
    key: key === null ? null : key.toString(),
    event: decoded.event,
    value: decoded.value,
    raw: value ?? Buffer.alloc(0),
    appendedAt: timestamp,
  })
}
