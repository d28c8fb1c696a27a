/**
 * Reads market.book-changes from its end and hands whole refreshes on.
 *
 * Every gateway process reads all partitions for itself, committed records only. Invariant: batches are
 * delivered one after the other, and the log is not read further while one is; a record that cannot be
 * decoded is counted and left out. A broker or registry that is lost for good ends the role.
 */
import { DecodeError } from '#infra/kafka/codec.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { type FollowedRecord, follow } from '#infra/kafka/follower.ts'
import { decodeLearning } from '#infra/kafka/learning.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { FEED_NAMES, type FeedMetrics } from './feed-metrics.ts'
import { type Batch, openRefreshBuffer } from './refresh-buffer.ts'

/** What the reader needs. */
export interface ChangeReaderOptions {
  kafka: KafkaConnection
  deliver(batch: Batch): Promise<void>
  metrics: FeedMetrics
  /** Told when the log can no longer be read. */
  fail(error: Error): void
}

/** A reader of changes. */
export interface ChangeReader {
  /** Undefined while changes arrive, else why not. */
  unavailable(): string | undefined
  stop(): Promise<void>
}

const MARKER_WAIT_MS = 500
const RELEASE_EVERY_MS = 100
const HELD_MAX = 100_000
/** A fetch that waits holds up the end of the reader. */
const FETCH_WAIT_MS = 100

/** Begins to read; resolves when the log's end is known, so that nothing after it is missed. */
export async function openChangeReader(options: ChangeReaderOptions): Promise<ChangeReader> {
  const { kafka, metrics, fail } = options
  const buffer = openRefreshBuffer({ partitions: ITEM_PARTITIONS, waitMs: MARKER_WAIT_MS, changesMax: HELD_MAX })
  const ending = new AbortController()
  let ended: string | undefined
  let waiting = 0
  let last: Promise<void> = Promise.resolve()

  /** Runs one piece of work after the other: batches must not overtake each other. */
  const inTurn = (work: () => Promise<void>): Promise<void> => {
    waiting += 1
    const done = last.then(work).finally(() => {
      waiting -= 1
    })
    last = done.catch(() => undefined)
    return done
  }
  const deliver = async (batches: readonly Batch[], stampedAt?: number): Promise<void> => {
    for (const batch of batches) {
      await options.deliver(batch)
      if (stampedAt === undefined) continue
      metrics.age.observe({ feed: FEED_NAMES[batch.side] }, Math.max(0, Date.now() - stampedAt) / 1000)
    }
  }
  const take = async (records: readonly FollowedRecord[]): Promise<void> => {
    for (const { partition, value, timestamp } of records) {
      const decoded = await decode(kafka, value, metrics)
      if (decoded === undefined) continue
      const { event } = decoded
      if (event === 'BookChanged') await deliver(buffer.change(decoded.value), timestamp)
      if (event === 'RefreshMarked') await deliver(buffer.mark(partition, decoded.value, performance.now()), timestamp)
    }
    await deliver(buffer.release(performance.now()), records.at(-1)?.timestamp)
    metrics.held.set(buffer.held())
  }

  const following = await follow(kafka, 'bookChanges', {
    from: 'end',
    signal: ending.signal,
    waitMs: FETCH_WAIT_MS,
    onRecords: records => inTurn(() => take(records)),
  })
  // A refresh that is whole in some partitions alone must not wait for the next record to come.
  const timer = setInterval(() => {
    if (waiting === 0) inTurn(() => deliver(buffer.release(performance.now()))).catch(fail)
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

async function decode(kafka: KafkaConnection, value: Buffer | null, metrics: FeedMetrics) {
  try {
    if (value !== null) return await decodeLearning(kafka.codec, value)
    throw new DecodeError('the record has no value')
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error
    metrics.undecodable.inc()
    kafka.log.warn({ reason: error.message }, 'a record of market.book-changes cannot be read')
    return undefined
  }
}
