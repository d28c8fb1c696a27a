/**
 * Turns the outcomes of records that cannot be taken into records of dead-letters and market.unresolved, counts and logs them.
 *
 * Invariant: such a record is written before the position moves past it, or in one transaction with that; a repeat has the
 * same group, topic, partition and offset.
 */
import type { Codec } from '#infra/kafka/codec.ts'
import type { Outgoing } from '#infra/kafka/publisher.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import { deadLettered, nameUnresolved } from '#schemas/events/dead-lettered.ts'
import type { Outcome } from './outcome.ts'

interface RawRecord {
  /** Name of the topic, or of the table. */
  topic: string
  partition: number
  offset: number
  key: Buffer | string | null
  value: Buffer | null
}

/** Counts an outcome; returns the record that keeps what could not be taken, undefined when it needs none. */
export type LetterOf = (record: RawRecord, outcome: Outcome) => (Outgoing & { partition: number }) | undefined

/** At most this many log lines a second per reason; the counter has them all. */
const LINES_PER_SECOND = 5

/** Opens the dead letters of a group; `now` is in milliseconds since the epoch. */
export function openDeadLetters(options: {
  group: string
  codec: Codec
  metrics: Metrics
  log: Log
  now?: () => number
}): LetterOf {
  const { group, codec, log, now = Date.now } = options
  const counter = options.metrics.counter('marketlog_records_total', 'Records of the log by group and outcome.', [
    'group',
    'outcome',
    'reason',
  ])
  const lines = new Map<string, { second: number; count: number }>()
  const warn = (reason: string, record: RawRecord, detail: string): void => {
    const second = Math.floor(now() / 1000)
    const line = lines.get(reason)
    if (line?.second === second && line.count >= LINES_PER_SECOND) return
    lines.set(reason, { second, count: line?.second === second ? line.count + 1 : 1 })
    const { partition, offset } = record
    log.warn({ group, topic: record.topic, partition, offset, reason, detail }, 'a record was not taken')
  }
  return (record, outcome) => {
    if (outcome.kind === 'ok' || outcome.kind === 'retry') return undefined
    if (outcome.kind === 'skip') {
      counter.inc({ group, outcome: 'skip', reason: outcome.reason })
      return undefined
    }
    const { topic, partition, offset, value } = record
    const origin = { group, topic, partition, offset }
    if (outcome.kind === 'unresolved') {
      counter.inc({ group, outcome: 'unresolved', reason: 'unknown_name' })
      const { name, phase, provider, observedAt } = outcome
      warn('unknown_name', record, `${provider}: ${name}${phase === null ? '' : ` (${phase})`}`)
      const letter = {
        ...origin,
        provider,
        market_hash_name: name,
        phase,
        value: value ?? Buffer.alloc(0),
        observed_at: observedAt,
      }
      return { topic: 'unresolved', partition: 0, key: name, value: codec.encode(nameUnresolved, letter) }
    }
    const { reason, detail } = outcome
    counter.inc({ group, outcome: 'deadLetter', reason })
    warn(reason, record, detail)
    const key = typeof record.key === 'string' ? Buffer.from(record.key) : record.key
    const letter = { ...origin, key, value, reason, detail }
    return { topic: 'deadLetters', partition: 0, key: group, value: codec.encode(deadLettered, letter) }
  }
}
