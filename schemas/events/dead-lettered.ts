/**
 * Dead letters: records that a stream processor cannot process, and records whose name the catalog lacks.
 *
 * Both hold the raw record and its origin, so that it can be replayed. Only the runner writes them, before it commits an
 * offset past the record or in the same transaction. A repeat has the same group, topic, partition and offset. The relay of the outbox
 * writes dead letters too: of the topic `outbox`, with a row's id as the offset.
 */
import { defineEvent, type EventValue, nullable } from './event.ts'

const origin = { group: 'string', topic: 'string', partition: 'int', offset: 'long' } as const

export const deadLettered = defineEvent('DeadLettered', 1, 'A record could not be read or accepted by a group.', {
  ...origin,
  key: nullable('bytes'),
  value: nullable('bytes'),
  reason: 'string',
  detail: 'string',
})

export type DeadLettered = EventValue<typeof deadLettered>

export const nameUnresolved = defineEvent(
  'NameUnresolved',
  1,
  'A name that the catalog does not know, with its raw record.',
  {
    ...origin,
    provider: 'string',
    market_hash_name: 'string',
    phase: nullable('string'),
    value: 'bytes',
    observed_at: 'long',
  },
)

export type NameUnresolved = EventValue<typeof nameUnresolved>
