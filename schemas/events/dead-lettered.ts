/**
 * Dead letters: records that a stream processor cannot process, and records whose name the catalog lacks.
 *
 * Both hold the raw record and its origin, so that it can be replayed. Only the runner writes them, before it commits an
 * offset past the record or in the same transaction. A repeat has the same group, topic, partition and offset. The relay of the outbox
 * writes dead letters too: of the topic `outbox`, with a row's id as the offset.
 */
import { defineEvent, nullable } from './event.ts'

/** A record that a processor cannot read or accept. */
export interface DeadLettered {
  group: string
  topic: string
  partition: number
  offset: number
  key: Buffer | null
  value: Buffer | null
  reason: string
  detail: string
}

/** A record could not be read or accepted by a group. */
export const deadLettered = defineEvent<DeadLettered>(
  'DeadLettered',
  1,
  'A record could not be read or accepted by a group.',
  {
    group: 'string',
    topic: 'string',
    partition: 'int',
    offset: 'long',
    key: nullable('bytes'),
    value: nullable('bytes'),
    reason: 'string',
    detail: 'string',
  },
)

/** A record whose name and phase resolve to no catalog item. */
export interface NameUnresolved {
  group: string
  topic: string
  partition: number
  offset: number
  provider: string
  market_hash_name: string
  phase: string | null
  value: Buffer
  observed_at: number
}

export const nameUnresolved = defineEvent<NameUnresolved>(
  'NameUnresolved',
  1,
  'A name that the catalog does not know, with its raw record.',
  {
    group: 'string',
    topic: 'string',
    partition: 'int',
    offset: 'long',
    provider: 'string',
    market_hash_name: 'string',
    phase: nullable('string'),
    value: 'bytes',
    observed_at: 'long',
  },
)
