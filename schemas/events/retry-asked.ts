/**
 * What `marketlog dead-letters retry` and `unresolved retry` write: a dead letter is to be taken again.
 *
 * Carries the record itself with its offset, by which views merge, so that taking it late gives what taking it in time would
 * have given. Read by the groups whose views allow that. Identity of a repeat: topic, partition, offset.
 */
import { defineEvent, optional } from './event.ts'

/** A dead letter, or a record with an unresolved name, is to be taken again. */
export interface RetryAsked {
  /** The group that is asked; null: every group that reads the topic. */
  group: string | null
  /** Of the record, by the catalogue's name. */
  topic: string
  partition: number
  offset: number
  key: Buffer | null
  value: Buffer
}

/** A dead letter, or a record with an unresolved name, is to be taken again. */
export const retryAsked = defineEvent<RetryAsked>(
  'RetryAsked',
  1,
  'A record that was set aside is to be taken again.',
  {
    group: optional('string'),
    topic: 'string',
    partition: 'int',
    offset: 'long',
    key: optional('bytes'),
    value: 'bytes',
  },
)
