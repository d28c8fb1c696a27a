/**
 * Holds a partition at a record whose event this version does not know, since a process of a newer version is on its way.
 *
 * States of a partition: reading -> waiting (the record is tried again, with growing pauses) -> overdue (one line in the log, and
 * readiness names it) -> reading, when a newer process has the partition. Invariant: such a record is neither skipped nor a dead
 * letter; what precedes it is written and committed.
 */
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import type { Outcome, UnknownOutcome } from './outcome.ts'

/** A partition that waits at a record. */
export interface WaitingPartition {
  event: string
  offset: number
  /** When it was first met, in milliseconds. */
  since: number
  tries: number
  isOverdue: boolean
}

/** How long a newer process is waited for before the operator has to start one. */
export const OVERDUE_AFTER_MS = 10 * 60_000
const FIRST_PAUSE_MS = 500
const LONGEST_PAUSE_MS = 10_000

/** The next state of a partition that meets such a record at `now`. */
export function waitAt(
  before: WaitingPartition | undefined,
  met: { event: string; offset: number },
  now: number,
  overdueAfterMs = OVERDUE_AFTER_MS,
): WaitingPartition {
  const isSame = before?.event === met.event && before.offset === met.offset
  const since = isSame ? before.since : now
  return { ...met, since, tries: isSame ? before.tries + 1 : 1, isOverdue: now - since >= overdueAfterMs }
}

/** How long such a partition pauses before it tries again. */
export const pauseOf = ({ tries }: WaitingPartition): number =>
  Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(tries - 1, 16))

/** The partitions of a group member that wait. */
export interface UnknownEvents {
  /** A record of such an event is tried again; outcomes of others stay. */
  judge(record: { topic: TopicKey; partition: number; offset: number }, outcome: Outcome | UnknownOutcome): Outcome
  /** A batch went through, so nothing waits in its partition. */
  passed(topic: TopicKey, partition: number): void
  /** Partitions that are no longer this member's do not wait here. */
  assigned(partitions: readonly { topic: TopicKey; partition: number }[]): void
  /** What waits for longer than the limit, and what to do; undefined when nothing does. */
  overdue(): string | undefined
}

/** What waiting works with. */
interface UnknownEventsOptions {
  group: string
  metrics: Metrics
  log: Log
  /** Milliseconds that only grow. */
  now(): number
  /** {@link OVERDUE_AFTER_MS} when left out. */
  overdueAfterMs?: number
}

/** Opens what a group member waits for. */
export function openUnknownEvents(options: UnknownEventsOptions): UnknownEvents {
  const { group, log, now, overdueAfterMs } = options
  const gauge = options.metrics.gauge(
    'marketlog_unknown_event_partitions',
    'Partitions that wait at an event which this version does not know.',
    ['group', 'topic', 'event'],
  )
  const waiting = new Map<string, WaitingPartition & { topic: TopicKey; partition: number }>()
  const count = (topic: TopicKey, event: string, by: 1 | -1): void =>
    gauge.inc({ group, topic: topics[topic].name, event }, by)
  const forget = (name: string): void => {
    const before = waiting.get(name)
    if (before === undefined) return
    waiting.delete(name)
    count(before.topic, before.event, -1)
  }
  return {
    judge(record, outcome) {
      if (outcome.kind !== 'unknown') return outcome
      const { topic, partition, offset } = record
      const { event } = outcome
      const name = nameOf(topic, partition)
      const before = waiting.get(name)
      const next = waitAt(before, { event, offset }, now(), overdueAfterMs)
      if (before?.event !== event) {
        forget(name)
        count(topic, event, 1)
      }
      waiting.set(name, { ...next, topic, partition })
      const about = { group, topic: topics[topic].name, partition, offset, event }
      if (next.tries === 1)
        log.warn(about, 'an event that this version does not know; the partition waits for a newer one')
      if (next.isOverdue && !(before?.isOverdue && before.offset === offset)) log.error(about, adviceOn([event]))
      return { kind: 'retry', afterMs: pauseOf(next) }
    },
    passed: (topic, partition) => forget(nameOf(topic, partition)),
    assigned(partitions) {
      const own = new Set(partitions.map(({ topic, partition }) => nameOf(topic, partition)))
      for (const name of [...waiting.keys()]) if (!own.has(name)) forget(name)
    },
    overdue() {
      const late = [...waiting.values()].filter(({ isOverdue }) => isOverdue)
      if (late.length === 0) return undefined
      const places = late.map(
        ({ topic, partition, offset }) => `${topics[topic].name}-${partition} at offset ${offset}`,
      )
      return `${places.join(', ')}: ${adviceOn([...new Set(late.map(({ event }) => event))])}`
    },
  }
}

const nameOf = (topic: TopicKey, partition: number): string => `${topic}/${partition}`

/** What an operator can do about events of a newer version. */
export const adviceOn = (events: readonly string[]): string =>
  `this version does not know ${events.join(', ')}: start the version that wrote it`
