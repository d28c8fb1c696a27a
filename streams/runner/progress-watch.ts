/**
 * Watches a group member's progress: reports its lag as a metric, and ends the process when a partition stalls.
 *
 * A partition stalls when records wait for it and its position has not moved for a minute, by checks of the log that
 * succeeded: a broker that is away, or a frozen process, does not count. A partition that is still
 * opening (a view is being filled) has ten times as long. Reads the brokers only. Invariant: transaction markers
 * are no lag, so a member that has read everything never counts as stalled.
 */

import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { committedOffsets, nextRecordAt } from '#infra/kafka/lag.ts'
import type { RangeReader } from '#infra/kafka/range-reader.ts'
import { openRefusalLimit } from '#infra/kafka/refusal.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { type Source, sourceName } from './positions.ts'

export type ProgressWatch = ReturnType<typeof watchProgress>

interface WatchOptions {
  kafka: KafkaConnection
  group: string
  topics: readonly TopicKey[]
  /** Of the topics. */
  reader: RangeReader
  metrics: Metrics
  log: Log
  isOpen(source: Source): boolean
  fail(error: Error): void
  /** {@link STALLED_AFTER_MS} when left out. */
  stalledAfterMs?: number
}

/** How long nothing may be committed while records wait. */
export const STALLED_AFTER_MS = 60_000
const CHECKS_PER_LIMIT = 6
const LIMIT_FACTOR_WHILE_OPENING = 10

interface Watched extends Source {
  position: number | undefined
  lag: number
  /** For how long records have waited while the position did not move. */
  stalledMs: number
  movedSinceCheck: boolean
}

export function watchProgress(options: WatchOptions) {
  const { kafka, group, log, fail, reader } = options
  const limitMs = options.stalledAfterMs ?? STALLED_AFTER_MS
  const everyMs = limitMs / CHECKS_PER_LIMIT
  const gauge = options.metrics.gauge('marketlog_group_lag', 'Records that wait for this member.', ['group', 'topic'])
  let watched = new Map<string, Watched>()
  let checkedAt = performance.now()
  let isClosed = false
  const refusals = openRefusalLimit(() => performance.now())

  async function check(): Promise<void> {
    const current = watched
    await fillPositions(kafka, group, current)
    for (const one of current.values()) one.lag = await lagOf(reader, kafka, one)
    if (current !== watched || isClosed) return
    // A process that was frozen checks late: only what could have been seen counts.
    const passed = Math.min(performance.now() - checkedAt, 2 * everyMs)
    checkedAt = performance.now()
    for (const key of options.topics) {
      const ofTopic = [...current.values()].filter(({ topic }) => topic === key)
      gauge.set(
        { group, topic: topics[key].name },
        ofTopic.reduce((sum, { lag }) => sum + lag, 0),
      )
    }
    for (const one of current.values()) {
      one.stalledMs = one.lag === 0 || one.movedSinceCheck ? 0 : one.stalledMs + passed
      one.movedSinceCheck = false
      const factor = options.isOpen(one) ? 1 : LIMIT_FACTOR_WHILE_OPENING
      if (one.stalledMs >= limitMs * factor) return fail(stalled(group, one))
    }
  }

  let checking = Promise.resolve()
  const timer = setInterval(() => {
    checking = checking.then(check).then(refusals.answered, error => {
      if (refusals.isReached(error) && !isClosed) return fail(error)
      log.debug({ error }, 'the lag could not be read')
    })
  }, everyMs)
  return {
    assigned(sources: readonly Source[]): void {
      watched = new Map(sources.map(one => [sourceName(one), { ...one, ...NEW }]))
      checkedAt = performance.now()
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
      isClosed = true
      clearInterval(timer)
      await checking
    },
  }
}

const NEW = { position: undefined, lag: 0, stalledMs: 0, movedSinceCheck: true }

function stalled(group: string, { topic, partition, lag, position, stalledMs }: Watched): Error {
  const name = `${topics[topic].name}-${partition}`
  const seconds = Math.round(stalledMs / 1000)
  return new Error(
    `${group} does not get on: ${lag} records of ${name} wait from offset ${position} on, and nothing was committed for ` +
      `${seconds} s. The process ends so that its supervisor starts it again; uncommitted work comes again`,
  )
}

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
