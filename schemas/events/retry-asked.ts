/**
 * Written by `marketlog dead-letters retry` and `unresolved retry`: a dead letter is to be processed again.
 *
 * Holds the record and its offset. Views merge by offset, so late processing gives the same result as processing in
 * time; only groups whose views do that read it. A repeat has the same topic, partition and offset.
 */
import { defineEvent, nullable } from './event.ts'

/** A dead letter, or a record with an unresolved name, is to be processed again. */
export interface RetryAsked {
  /** The consumer group that processes it; null: every group that reads the topic. */
  group: string | null
  /** Topic of the record, by its name in the catalogue. */
  topic: string
  partition: number
  offset: number
  key: Buffer | null
  value: Buffer
}

/** A dead letter, or a record with an unresolved name, is to be processed again. */
export const retryAsked = defineEvent<RetryAsked>(
  'RetryAsked',
  1,
  'A record that was set aside is to be taken again.',
  {
    group: nullable('string'),
    topic: 'string',
    partition: 'int',
    offset: 'long',
    key: nullable('bytes'),
    value: 'bytes',
  },
)
