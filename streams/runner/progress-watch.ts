/**
 * Watches a group member's progress: reports its lag as a metric, and ends the process when a partition stalls.
 *
 * A partition stalls when records wait for it and its position has not moved for a minute, by checks of the log that
 * succeeded: a broker that is away, or a frozen process, does not count. A partition that is still
 * opening (a view is being filled) has ten times as long. Reads the brokers only. Invariant: transaction markers
 * are no lag, so a member that has read everything never counts as stalled.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { committedOffsets, nextRecordAt } from '#infra/kafka/lag.ts'
import type { RangeReader } from '#infra/kafka/range-reader.ts'
import { openRefusalLimit } from '#infra/kafka/refusal.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { type Source, sourceName } from './positions.ts'

export type ProgressWatch = ReturnType<typeof watchProgress>

/** How long nothing may be committed while records wait. */
export const STALLED_AFTER_MS = 60_000
const CHECKS_PER_LIMIT = 6
const LIMIT_FACTOR_WHILE_OPENING = 10

interface Watched extends Source {
  position: number | undefined
  lag: number
  /** Checks in a row for which records have waited while the position did not move. */
  stalledChecks: number
  movedSinceCheck: boolean
}

export function watchProgress(options: {
  kafka: KafkaConnection
  group: string
  topics: readonly TopicKey[]
  /** Of the topics. */
  reader: RangeReader
  metrics: Metrics
  log: Log
  isOpen(source: Source): boolean
  fail(error: Error): void
  stalledAfterMs?: number
}) {
  const { kafka, group, log, fail, reader, stalledAfterMs = STALLED_AFTER_MS } = options
  const everyMs = stalledAfterMs / CHECKS_PER_LIMIT
  const gauge = options.metrics.gauge('marketlog_group_lag', 'Records that wait for this member.', ['group', 'topic'])
  const stop = new AbortController()
  const { signal } = stop
  let watched = new Map<string, Watched>()

  async function check(): Promise<void> {
    const current = watched
    await fillPositions(kafka, group, current)
    for (const one of current.values()) one.lag = await lagOf(reader, kafka, one)
    if (current !== watched || signal.aborted) return
    for (const key of options.topics) {
      const lags = [...current.values()].flatMap(({ topic, lag }) => (topic === key ? [lag] : []))
      gauge.set(
        { group, topic: topics[key].name },
        lags.reduce((sum, lag) => sum + lag, 0),
      )
    }
    for (const one of current.values()) {
      one.stalledChecks = one.lag === 0 || one.movedSinceCheck ? 0 : one.stalledChecks + 1
      one.movedSinceCheck = false
      const factor = options.isOpen(one) ? 1 : LIMIT_FACTOR_WHILE_OPENING
      if (one.stalledChecks < CHECKS_PER_LIMIT * factor) continue
      fail(
        new Error(
          `${group} does not get on: ${one.lag} records of ${topics[one.topic].name}-${one.partition} wait from offset ` +
            `${one.position} on, and nothing was committed for ${Math.round((one.stalledChecks * everyMs) / 1000)} s. The ` +
            'process ends so that its supervisor starts it again; uncommitted work comes again',
        ),
      )
      return
    }
  }
  async function watch(): Promise<void> {
    const refusals = openRefusalLimit(() => performance.now())
    for (;;) {
      await delay(everyMs, undefined, { signal })
      await check().then(refusals.answered, error => {
        if (refusals.isReached(error) && !signal.aborted) fail(error)
        else log.debug({ error }, 'the lag could not be read')
      })
    }
  }
  // It ends by the abort alone.
  const watching = watch().catch(() => undefined)
  return {
    assigned(sources: readonly Source[]): void {
      watched = new Map(sources.map(one => [sourceName(one), { ...one, ...NEW }]))
    },
    /** A partition's position is `next` from now on. */
    moved(source: Source, next: number): void {
      const one = watched.get(sourceName(source))
      if (!one || one.position === next) return
      one.position = next
      one.movedSinceCheck = true
    },
    /** A partition waits for something else than its position: that is no stall. */
    waited(source: Source): void {
      const one = watched.get(sourceName(source))
      if (one) one.movedSinceCheck = true
    },
    async close(): Promise<void> {
      stop.abort()
      await watching
    },
  }
}

const NEW = { position: undefined, lag: 0, stalledChecks: 0, movedSinceCheck: true }

/** A member that has got no record yet is at its group's committed offset. */
async function fillPositions(
  kafka: KafkaConnection,
  group: string,
  watched: ReadonlyMap<string, Watched>,
): Promise<void> {
  const unknown = [...watched.values()].filter(({ position }) => position === undefined)
  for (const topic of new Set(unknown.map(one => one.topic))) {
    const committed = await committedOffsets(kafka, group, topic)
    for (const one of unknown) if (one.topic === topic) one.position ??= committed.get(one.partition) ?? 0
  }
}

async function lagOf(reader: RangeReader, kafka: KafkaConnection, one: Watched): Promise<number> {
  const { partition } = one
  const topic = kafka.topicName(one.topic)
  const end = await reader.stableEnd(topic, partition)
  return Math.max(0, end - (await nextRecordAt(reader, { topic, partition, position: one.position ?? 0, end })))
}
