/**
 * Holds a partition at a record whose event this version does not know, since a process of a newer version is on its way.
 *
 * States of a partition: reading -> waiting (one line in the log; readiness names it; the record is tried again every few seconds) ->
 * reading, when a newer process has the partition. Invariant: such a record is neither skipped nor a dead letter; what precedes it is
 * written and committed.
 */
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import { topics } from '#schemas/topics.ts'
import type { Outcome, UnknownOutcome } from './outcome.ts'
import { type Source, sourceName } from './positions.ts'

interface WaitingPartition extends Source {
  offset: number
  event: string
}

const PAUSE_MS = 5_000

export type UnknownEvents = ReturnType<typeof openUnknownEvents>

export function openUnknownEvents({ group, metrics, log }: { group: string; metrics: Metrics; log: Log }) {
  const gauge = metrics.gauge(
    'marketlog_unknown_event_partitions',
    'Partitions that wait at an event which this version does not know.',
    ['group', 'topic', 'event'],
  )
  const waiting = new Map<string, WaitingPartition>()
  const count = ({ topic, event }: WaitingPartition, by: 1 | -1): void =>
    gauge.inc({ group, topic: topics[topic].name, event }, by)
  const forget = (name: string): void => {
    const before = waiting.get(name)
    if (before === undefined) return
    waiting.delete(name)
    count(before, -1)
  }
  return {
    /** A record of such an event is tried again; outcomes of others stay. */
    judge({ topic, partition, offset }: Source & { offset: number }, outcome: Outcome | UnknownOutcome): Outcome {
      if (outcome.kind !== 'unknown') return outcome
      const { event } = outcome
      const name = sourceName({ topic, partition })
      const before = waiting.get(name)
      if (before?.event !== event || before.offset !== offset) {
        forget(name)
        const met = { topic, partition, offset, event }
        waiting.set(name, met)
        count(met, 1)
        log.warn({ group, topic: topics[topic].name, partition, offset, event }, adviceOn([event]))
      }
      return { kind: 'retry', afterMs: PAUSE_MS }
    },
    /** A batch went through, so nothing waits in its partition. */
    passed: (source: Source) => forget(sourceName(source)),
    /** Partitions that are no longer this member's do not wait here. */
    assigned(partitions: readonly Source[]): void {
      const own = new Set(partitions.map(sourceName))
      for (const name of [...waiting.keys()]) if (!own.has(name)) forget(name)
    },
    /** The partitions that wait, and the advice; undefined when none does. */
    report(): string | undefined {
      if (waiting.size === 0) return undefined
      const all = [...waiting.values()]
      const places = all.map(({ topic, partition, offset }) => `${topics[topic].name}-${partition} at offset ${offset}`)
      return `${places.join(', ')}: ${adviceOn([...new Set(all.map(({ event }) => event))])}`
    },
  }
}

export const adviceOn = (events: readonly string[]): string =>
  `this version does not know ${events.join(', ')}: start the version that wrote it`
