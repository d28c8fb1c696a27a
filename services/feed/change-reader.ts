/**
 * Reads market.book-changes from its end and delivers whole refreshes.
 *
 * Every gateway process reads all partitions for itself, committed records only. Batches are delivered one after the
 * other, and the log is not read further while one is delivered. A record that cannot be decoded is counted and skipped.
 * A broker or registry that is lost for good ends the role.
 */
import PQueue from 'p-queue'
import { type Decoded, DecodeError } from '#infra/kafka/codec.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { type FollowedRecord, follow } from '#infra/kafka/follower.ts'
import { decodeKnown, decodeLearning } from '#infra/kafka/learning.ts'
import type { TopicIds } from '#infra/runtime/role.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { FEED_NAMES, type FeedMetrics } from './feed-metrics.ts'
import type { LogPosition } from './log-position.ts'
import {
  type AssembledBatch,
  type ChangeRecord,
  openRefreshAssembler,
  type RefreshAssembler,
} from './refresh-assembler.ts'

/** What the reader needs. */
interface ChangeReaderOptions {
  kafka: KafkaConnection
  ids: TopicIds
  deliver(batch: AssembledBatch): Promise<void>
  metrics: FeedMetrics
  /** Called when the log can no longer be read. */
  fail(error: Error): void
}

/** A reader of changes. */
export interface ChangeReader {
  /** Undefined while changes arrive, else why not. */
  unavailable(): string | undefined
  /** Runs work between two batches, with the position of all that has been delivered by then. */
  between<T>(work: (position: LogPosition) => T): Promise<T>
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

/** Begins to read; resolves when the log's end is known, so that nothing after it is missed. */
export async function openChangeReader(options: ChangeReaderOptions): Promise<ChangeReader> {
  const { kafka, ids, metrics, fail } = options
  const limits = { partitions: ITEM_PARTITIONS, waitMs: MARKER_WAIT_MS, changesMax: HELD_MAX }
  const opened = Promise.withResolvers<RefreshAssembler>()
  const ending = new AbortController()
  let ended: string | undefined
  // Batches must not overtake each other.
  const queue = new PQueue({ concurrency: 1 })

  const deliver = async (batches: readonly AssembledBatch[], stampedAt?: number): Promise<void> => {
    for (const batch of batches) {
      await options.deliver(batch)
      if (stampedAt === undefined) continue
      metrics.age.observe({ feed: FEED_NAMES[batch.side] }, Math.max(0, Date.now() - stampedAt) / 1000)
    }
  }
  const take = async (records: readonly FollowedRecord[]): Promise<void> => {
    const assembler = await opened.promise
    for (const record of records) {
      const decoded = await decodeChange(kafka, record, metrics)
      if (decoded) await deliver(assembler.take(decoded, performance.now()), record.timestamp)
      else assembler.skip(record.partition, record.offset)
    }
    await deliver(assembler.release(performance.now()), records.at(-1)?.timestamp)
    metrics.held.set(assembler.held())
  }

  const following = await follow(kafka, 'bookChanges', {
    from: 'end',
    signal: ending.signal,
    ids,
    waitMs: FETCH_WAIT_MS,
    onRecords: records => queue.add(() => take(records)),
  })
  const assembler = openRefreshAssembler(limits, { next: following.from, behind: new Map() })
  opened.resolve(assembler)
  // A refresh that is whole in some partitions alone must not wait for the next record to come.
  const timer = setInterval(() => {
    if (queue.size + queue.pending === 0) queue.add(() => deliver(assembler.release(performance.now()))).catch(fail)
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
    between: work => queue.add(async () => work(assembler.position())),
    async stop() {
      clearInterval(timer)
      ending.abort()
      await closed
    },
  }
}

/**
 * A record as the assembler takes it; undefined when feeds do not deliver its event, and counted when it cannot be read. At once
 * unless its schema is new.
 */
export function decodeChange(
  kafka: KafkaConnection,
  record: Pick<FollowedRecord, 'partition' | 'offset' | 'value'>,
  metrics: Pick<FeedMetrics, 'undecodable'>,
): ChangeRecord | undefined | Promise<ChangeRecord | undefined> {
  const { partition, offset, value } = record
  const unreadable = (error: unknown): undefined => {
    if (!(error instanceof DecodeError)) throw error
    metrics.undecodable.inc()
    kafka.log.warn({ reason: error.message }, 'a record of market.book-changes cannot be read')
  }
  const placed = ({ event, value }: Decoded): ChangeRecord | undefined =>
    event === 'BookChanged' || event === 'RefreshMarked' ? { partition, offset, event, value } : undefined
  try {
    if (value === null) throw new DecodeError('the record has no value')
    const known = decodeKnown(kafka.codec, value)
    return known ? placed(known) : decodeLearning(kafka.codec, value).then(placed, unreadable)
  } catch (error) {
    return unreadable(error)
  }
}
