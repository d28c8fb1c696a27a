/**
 * Follows a topic from its end and delivers whole refreshes.
 *
 * Every gateway process reads all partitions for itself, committed records only. Batches are delivered one after the
 * other, and the log is not read further while one is delivered. A record that cannot be decoded is counted and skipped.
 * A broker or registry that is lost for good ends the role.
 */
import PQueue from 'p-queue'
import { DecodeError } from '#infra/kafka/codec.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { follow } from '#infra/kafka/follower.ts'
import type { LogRecord } from '#infra/kafka/range-reader.ts'
import type { TopicIds } from '#infra/runtime/role.ts'
import { topics } from '#schemas/topics.ts'
import type { FeedTopic } from './feed-topics.ts'
import type { LogPosition } from './log-position.ts'
import { FEED_NAMES, type FeedMetrics } from './metrics.ts'
import {
  type AssembledBatch,
  type ChangeRecord,
  openRefreshAssembler,
  type RefreshAssembler,
} from './refresh-assembler.ts'

interface LogFollowerOptions {
  kafka: KafkaConnection
  topic: FeedTopic
  ids: TopicIds
  /** Called with the position from which the log is followed, before anything is delivered. */
  begin(position: LogPosition): LogDelivery
  metrics: FeedMetrics
  /** Called when the log can no longer be read. */
  fail(error: Error): void
}

interface LogDelivery {
  deliver(batch: AssembledBatch): Promise<void>
  /** Notes what has been delivered, by batches or without. */
  advance(position: LogPosition): void
}

export interface LogFollower {
  /** Undefined while changes arrive, else why not. */
  unavailable(): string | undefined
  stop(): Promise<void>
}

/**
 * Only a reader that began in mid-refresh waits as long. A loaded machine has brought the partitions of one fetch more than
 * half a second apart, and what is released before the rest has come is delivered after the next refresh.
 */
const MARKER_WAIT_MS = 3_000
const RELEASE_EVERY_MS = 100
/** Most changes held of one refresh. */
export const HELD_MAX = 100_000
/** A fetch that waits delays the end of the reader. */
const FETCH_WAIT_MS = 100

/** Begins to follow; resolves when the log's end is known, so that nothing after it is missed. */
export async function followLog(options: LogFollowerOptions): Promise<LogFollower> {
  const { kafka, topic, ids, metrics, fail } = options
  const { name, partitions } = topics[topic.key]
  const limits = { partitions, waitMs: MARKER_WAIT_MS, changesMax: HELD_MAX }
  const opened = Promise.withResolvers<{ assembler: RefreshAssembler; delivery: LogDelivery }>()
  const ending = new AbortController()
  let ended: string | undefined
  // Batches must not overtake each other.
  const queue = new PQueue({ concurrency: 1 })

  const deliver = async (
    delivery: LogDelivery,
    batches: readonly AssembledBatch[],
    stampedAt?: number,
  ): Promise<void> => {
    for (const batch of batches) {
      await delivery.deliver(batch)
      if (stampedAt === undefined) continue
      metrics.age.observe({ feed: FEED_NAMES[batch.side] }, Math.max(0, Date.now() - stampedAt) / 1000)
    }
  }
  const add = async (records: readonly LogRecord[]): Promise<void> => {
    const { assembler, delivery } = await opened.promise
    for (const record of records) {
      const decoded = decodeChange(kafka, topic, record, metrics)
      if (decoded) await deliver(delivery, assembler.add(decoded, performance.now()), record.timestamp)
      else assembler.skip(record.partition, record.offset)
    }
    await release(records.at(-1)?.timestamp)
  }
  const release = async (stampedAt?: number): Promise<void> => {
    const { assembler, delivery } = await opened.promise
    await deliver(delivery, assembler.release(performance.now()), stampedAt)
    delivery.advance(assembler.position())
    metrics.held.set({ topic: name }, assembler.held())
  }

  const following = await follow(kafka, topic.key, {
    from: 'end',
    signal: ending.signal,
    ids,
    waitMs: FETCH_WAIT_MS,
    onRecords: records => queue.add(() => add(records)),
  })
  const position = { next: following.from, behind: new Map() }
  opened.resolve({ assembler: openRefreshAssembler(limits, position), delivery: options.begin(position) })
  // A refresh that is whole in some partitions alone must not wait for the next record to come.
  const timer = setInterval(() => {
    if (queue.size + queue.pending === 0) queue.add(() => release()).catch(fail)
  }, RELEASE_EVERY_MS)
  const closed = following.closed.then(
    () => {
      ended = 'the feed is stopping'
    },
    error => {
      ended = 'the log can no longer be read'
      fail(error)
    },
  )
  return {
    unavailable: () => ended ?? (following.trouble() === undefined ? undefined : 'the log does not answer'),
    async stop() {
      clearInterval(timer)
      ending.abort()
      await closed
    },
  }
}

/** A record as the assembler reads it; undefined when feeds do not deliver its event, and counted when it cannot be read. */
export function decodeChange(
  kafka: KafkaConnection,
  topic: FeedTopic,
  { partition, offset, value, timestamp }: Pick<LogRecord, 'partition' | 'offset' | 'value' | 'timestamp'>,
  metrics: Pick<FeedMetrics, 'undecodable'>,
): ChangeRecord | undefined {
  try {
    if (value === null) throw new DecodeError('the record has no value')
    const read = topic.read(kafka.codec.decode(value), timestamp)
    return read && { partition, offset, ...read }
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error
    metrics.undecodable.inc()
    kafka.log.warn({ reason: error.message }, `a record of ${topics[topic.key].name} cannot be read`)
  }
}
