/**
 * A topic as a gateway serves it: followed from its end into the window and to the subscribers, and read again for streams that are older.
 *
 * Every gateway process reads all partitions for itself, committed records only. Batches are delivered one after the
 * other, and the log is not read further while one is delivered. A record that cannot be decoded is counted and skipped.
 * A broker or registry that is lost for good ends the role.
 */
import PQueue from 'p-queue'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { follow } from '#infra/kafka/follower.ts'
import type { LogRecord } from '#infra/kafka/range-reader.ts'
import type { TopicIds } from '#infra/runtime/role.ts'
import { topics } from '#schemas/topics.ts'
import { decodeChange, type FeedTopic } from './feed-topics.ts'
import type { FrameItems } from './frames.ts'
import type { Gateway } from './gateway.ts'
import { openEventIds } from './log-position.ts'
import { openLogReader } from './log-reader.ts'
import { FEED_NAMES, type FeedMetrics } from './metrics.ts'
import { type AssembledBatch, HELD_MAX, openRefreshAssembler } from './refresh-assembler.ts'
import { loadWindow, openFeedWindow } from './window.ts'

/**
 * Only a reader that began in mid-refresh waits as long. A loaded machine has brought the partitions of one fetch more than
 * half a second apart, and what is released before the rest has come is delivered after the next refresh.
 */
const MARKER_WAIT_MS = 3_000
const RELEASE_EVERY_MS = 100
/** A fetch that waits delays the end of the reader. */
const FETCH_WAIT_MS = 100

interface FeedLogParts {
  kafka: KafkaConnection
  topicIds: TopicIds
  /** Signs event ids; the same for all gateways. */
  cursorKey: string
  items: FrameItems
  gateway: Gateway
  windowBytes: number
  metrics: FeedMetrics
  fail(error: Error): void
}

/** Begins to follow; resolves when the log's end is known, so that nothing after it is missed. */
export async function openFeedLog(topic: FeedTopic, parts: FeedLogParts) {
  const { kafka, topicIds, gateway, metrics, fail } = parts
  const { name, partitions } = topics[topic.key]
  const topicId = await topicIds.idOf(topic.key)
  const ids = openEventIds(parts.cursorKey, `${kafka.namespace}|${topicId}`, partitions)
  const history = await openLogReader(kafka, topic, metrics)
  const ending = new AbortController()
  // Batches must not overtake each other, and none is delivered before there is a window.
  const queue = new PQueue({ concurrency: 1, autoStart: false })
  const following = await follow(kafka, topic.key, {
    from: 'end',
    signal: ending.signal,
    ids: topicIds,
    waitMs: FETCH_WAIT_MS,
    onRecords: records => queue.add(() => add(records)),
  })
  const position = { next: following.from, behind: new Map() }
  const assembler = openRefreshAssembler({ partitions, waitMs: MARKER_WAIT_MS, changesMax: HELD_MAX }, position)
  const window = openFeedWindow(parts.windowBytes, position)
  queue.start()

  async function deliver(batches: readonly AssembledBatch[], stampedAt?: number): Promise<void> {
    for (const batch of batches) {
      await gateway.deliver(batch, { window, ids })
      if (stampedAt === undefined) continue
      metrics.age.observe({ feed: FEED_NAMES[batch.side] }, Math.max(0, Date.now() - stampedAt) / 1000)
    }
  }
  async function add(records: readonly LogRecord[]): Promise<void> {
    for (const record of records) {
      const change = decodeChange(kafka, topic, record, metrics)
      if (change) await deliver(assembler.add(change, performance.now()), record.timestamp)
      else assembler.skip(record.partition, record.offset)
    }
    await release(records.at(-1)?.timestamp)
  }
  async function release(stampedAt?: number): Promise<void> {
    await deliver(assembler.release(performance.now()), stampedAt)
    window.advance(assembler.position())
    metrics.held.set({ topic: name }, assembler.held())
  }

  // A refresh that is whole in some partitions alone must not wait for the next record to come.
  const timer = setInterval(() => {
    if (queue.size + queue.pending === 0) queue.add(() => release()).catch(fail)
  }, RELEASE_EVERY_MS)
  let isLost = false
  const closed = following.closed.catch(error => {
    isLost = true
    fail(error)
  })
  const loaded = loadWindow(window, { log: history, ...parts.items }, ending.signal).catch(error =>
    kafka.log.warn({ err: error }, `the newest of ${name} could not be loaded; older positions are read from the log`),
  )
  return {
    topicId,
    ids,
    window,
    log: history,
    openReader: () => openLogReader(kafka, topic, metrics),
    /** Undefined while changes arrive, else why not. */
    unavailable(): string | undefined {
      if (isLost) return 'the log can no longer be read'
      return following.trouble() === undefined ? undefined : 'the log does not answer'
    },
    async close(): Promise<void> {
      clearInterval(timer)
      ending.abort()
      await closed
      await loaded
      await history.close()
    },
  }
}
