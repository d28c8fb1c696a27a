/**
 * Reads partitions from offset to offset, read_committed, without a consumer group.
 *
 * For state that is loaded before a group's records are processed, for tools, and for readers that every instance runs for itself
 * (follower.ts). Built on the pinned client's own connection pool, since its consumer can do none of it. Invariant: a range is read in
 * order per partition and ends exactly at its end, whatever compaction or transactions have emptied; what is handed over can be decoded
 * at once; every wait has a limit. Leaders are looked up again at once when one is away or leads no more.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { retryFor, succeeds } from '../runtime/async/retry.ts'
import { type Cluster, openCluster } from './client/cluster.ts'
import { type DecodedRecord, errorOf, type FetchedRecords, fetchRecords } from './client/fetch-decoding.ts'
import type { Codec } from './codec.ts'
import { BROKER_RETRY_LIMIT_MS, type KafkaConnection } from './connection.ts'
import { refusalOf } from './refusal.ts'

export type LogRecord = DecodedRecord

const FETCH_BYTES = 4 * 2 ** 20
/** A leader that has just become one may show an earlier end. */
const SHORT_LIMIT_MS = 5_000
const STUCK_LIMIT_MS = 120_000
const RANGE_WAIT_MS = 100
const HELD_BACK_MS = 20
const CONNECT_AGAIN_MS = 500
/** While some broker answers: a cluster that is busy may take a minute to miss a broker and to elect others in its place. */
const LEADER_LIMIT_MS = 120_000
/** While none does. */
const ANSWER_LIMIT_MS = 5_000
const LEADER_PAUSE_MS = 100
const READ_COMMITTED = 1
const READ_UNCOMMITTED = 0

/** Offsets of one partition, half-open. */
export interface OffsetRange {
  from: number
  to: number
}

type FetchedPartition = Pick<FetchedRecords, 'partition' | 'records' | 'stableEnd'>

export type RangeReader = Awaited<ReturnType<typeof openRangeReader>>

/**
 * Opens a reader for some topics, named with their namespace; a fetch returns `fetchBytes` of a partition, 4 MiB by default.
 * While brokers are away it retries for `connectLimitMs`, {@link BROKER_RETRY_LIMIT_MS} by default.
 */
export async function openRangeReader(
  kafka: KafkaConnection,
  topics: string[],
  { fetchBytes = FETCH_BYTES, connectLimitMs }: { fetchBytes?: number; connectLimitMs?: number } = {},
) {
  const cluster = await connectCluster(kafka, 'reader', topics, connectLimitMs)
  const leaderOf = (topic: string, partition: number): string => {
    const nodeId = Object.keys(cluster.findLeaderForPartitions(topic, [partition]))[0]
    if (nodeId !== undefined) return nodeId
    throw Object.assign(new Error(`${topic}-${partition} has no leader`), { retriable: true })
  }
  const offset = (isolationLevel: number, timestamp: number, topic: string, partition: number): Promise<number> =>
    whileLeaderMoves(cluster, async () => {
      await cluster.refreshMetadataIfNecessary()
      const broker = await cluster.findBroker({ nodeId: leaderOf(topic, partition) })
      const requested = [{ topic, partitions: [{ partition, timestamp }] }]
      const { responses } = await broker.listOffsets({ isolationLevel, topics: requested })
      return Number(responses[0]?.partitions[0]?.offset)
    })
  const stableEnd = (topic: string, partition: number) => offset(READ_COMMITTED, -1, topic, partition)
  const bounds = {
    start: (topic: string, partition: number) => offset(READ_UNCOMMITTED, -2, topic, partition),
    /** The offset after the last record, open transactions included. */
    end: (topic: string, partition: number) => offset(READ_UNCOMMITTED, -1, topic, partition),
  }
  /**
   * One fetch over several partitions from their next offsets; moves `next` past what came. Throws when nothing came and something
   * failed; leaders are looked up again before that, so that the next fetch asks the new ones.
   */
  const fetch = async (topic: string, next: Map<number, number>, waitMs: number): Promise<FetchedPartition[]> => {
    await cluster.refreshMetadataIfNecessary()
    const limits = { maxWaitTime: waitMs, minBytes: 1, maxBytes: fetchBytes * 2, isolationLevel: READ_COMMITTED }
    const requestOf = (partition: number) => {
      return { partition, fetchOffset: String(next.get(partition)), maxBytes: fetchBytes }
    }
    const answers = await Promise.allSettled(
      [...Map.groupBy(next.keys(), partition => leaderOf(topic, partition))].map(async ([nodeId, partitions]) => {
        const broker = await cluster.findBroker({ nodeId })
        return fetchRecords(broker, { ...limits, topics: [{ topic, partitions: partitions.map(requestOf) }] })
      }),
    )
    return joinAnswers({ cluster, codec: kafka.codec }, next, answers)
  }
  return {
    ...bounds,
    fetch,
    /** The offset after the last record that no open transaction holds back. */
    stableEnd,
    /** The first offset that the log took at a time or later; the stable end when there is none. */
    async atTime(topic: string, partition: number, timestamp: number): Promise<number> {
      const first = await offset(READ_COMMITTED, timestamp, topic, partition)
      return first >= 0 ? first : stableEnd(topic, partition)
    },
    /**
     * The committed records of ranges of partitions, in pages as they were fetched; the next page is fetched while one is handled. Throws
     * where nothing comes for two minutes, or a partition ends before its range.
     */
    range: (
      topic: string,
      ranges: ReadonlyMap<number, OffsetRange>,
      signal?: AbortSignal,
    ): AsyncGenerator<LogRecord[], void, void> => {
      const fetchNext = (next: Map<number, number>) =>
        whileLeaderMoves(cluster, () => fetch(topic, next, RANGE_WAIT_MS))
      return rangePages({ ...bounds, fetchNext }, topic, ranges, signal)
    },
    close: (): Promise<void> => cluster.disconnect(),
  }
}

/** A cluster that is connected and knows its brokers and some topics; refusals are not retried. */
export async function connectCluster(
  kafka: KafkaConnection,
  name: string,
  topics: string[] = [],
  limitMs = BROKER_RETRY_LIMIT_MS,
): Promise<Cluster> {
  const cluster = openCluster(kafka, name)
  await retryFor(limitMs, CONNECT_AGAIN_MS, () => cluster.connect(), {
    shouldRetry: ({ error }) => refusalOf(error) === undefined,
  })
  await cluster.addMultipleTargetTopics(topics)
  return cluster
}

async function* rangePages(
  {
    start,
    end,
    fetchNext,
  }: Record<'start' | 'end', (topic: string, partition: number) => Promise<number>> & {
    fetchNext(next: Map<number, number>): Promise<FetchedPartition[]>
  },
  topic: string,
  ranges: ReadonlyMap<number, OffsetRange>,
  signal: AbortSignal | undefined,
): AsyncGenerator<LogRecord[], void, void> {
  const next = new Map<number, number>()
  for (const [partition, { from, to }] of ranges) {
    const first = Math.max(from, await start(topic, partition))
    if (first < to) next.set(partition, first)
  }
  const toOf = (partition: number): number => ranges.get(partition)?.to ?? 0
  const sum = (): number => next.values().reduce((all, one) => all + one, 0)
  let movedAt = performance.now()
  let thereAt = movedAt
  /** Nothing came: a transaction is still open below the end, and ends by commit, abort or timeout. Or the topic was created again. */
  const holdBack = async (): Promise<void> => {
    const now = performance.now()
    if (now - movedAt > STUCK_LIMIT_MS) throw new Error(`${topic}: nothing came for ${STUCK_LIMIT_MS / 1000} s`)
    const ends = await Promise.all([...next.keys()].map(async each => [each, await end(topic, each)] as const))
    const short = ends.find(([partition, offset]) => offset < toOf(partition))
    if (short === undefined) thereAt = now
    else if (now - thereAt > SHORT_LIMIT_MS) throw new Error(`${topic}-${short[0]} ends before ${toOf(short[0])}`)
    await delay(HELD_BACK_MS)
  }
  const fetchPage = async (): Promise<LogRecord[]> => {
    const before = sum()
    const fetched = await fetchNext(next)
    if (sum() === before) await holdBack()
    else thereAt = movedAt = performance.now()
    for (const [partition, offset] of next) if (offset >= toOf(partition)) next.delete(partition)
    const page: LogRecord[] = []
    // The records themselves, no copies: most of what a range costs is what it does for each record.
    for (const { partition, records } of fetched)
      for (const record of records) if (record.offset < toOf(partition)) page.push(record)
    return page
  }
  let coming = next.size > 0 ? fetchPage() : undefined
  while (coming !== undefined) {
    signal?.throwIfAborted()
    const page = await coming
    // The broker and the decompression work while the page is handled.
    coming = next.size > 0 ? fetchPage() : undefined
    coming?.catch(() => undefined)
    if (page.length > 0) yield page
  }
}

/** Asks again while a partition has no leader that knows of it: just after its topic was created, as it moves, or its broker ends. */
function whileLeaderMoves<T>(cluster: Cluster, ask: () => Promise<T>): Promise<T> {
  let answeredAt = performance.now()
  return retryFor(LEADER_LIMIT_MS, LEADER_PAUSE_MS, ask, {
    async shouldRetry({ error }) {
      if (!isPassing(error) || performance.now() - answeredAt > ANSWER_LIMIT_MS) return false
      if (await succeeds(cluster.refreshMetadata())) answeredAt = performance.now()
      return true
    },
  })
}

/** Whether the log does not hold an offset that was asked for. */
export const isOutOfRange = (error: unknown): boolean => (error as { type?: string }).type === 'OFFSET_OUT_OF_RANGE'

/** Whether what failed may succeed when it is asked again: a leader that moves, a broker that is away. */
const isPassing = (error: unknown): boolean => (error as { retriable?: boolean }).retriable === true

/**
 * Joins the answers of leaders. When one is away, or leads no more, the others' records are returned, and its partitions are fetched
 * from their new leaders next time. Throws when nothing came and something failed; `next` has not moved then.
 */
async function joinAnswers(
  { cluster, codec }: { cluster: Cluster; codec: Codec },
  next: Map<number, number>,
  answers: PromiseSettledResult<FetchedRecords[]>[],
): Promise<FetchedPartition[]> {
  const fetched = answers.flatMap(answer => (answer.status === 'fulfilled' ? answer.value : []))
  for (const { records } of fetched) await codec.learn(records)
  const errors: unknown[] = [
    ...answers.flatMap(answer => (answer.status === 'rejected' ? [answer.reason] : [])),
    ...fetched.flatMap(one => errorOf(one) ?? []),
  ]
  if (errors.length === 0) return fetched.map(one => advance(next, one))
  // What fails here fails again at the next request, which reports it.
  await succeeds(cluster.refreshMetadata())
  const final = errors.find(error => !isPassing(error))
  const brought = fetched.filter(one => one.errorCode === 0 && one.next !== undefined)
  if (final !== undefined || brought.length === 0) throw final ?? errors[0]
  return brought.map(one => advance(next, one))
}

/** Moves a partition's next offset past what came and returns the records from there on: a batch may begin before. */
function advance(
  next: Map<number, number>,
  { partition, records, stableEnd, next: reached }: FetchedRecords,
): FetchedPartition {
  const position = next.get(partition) ?? 0
  if (reached === undefined) return { partition, records: [], stableEnd }
  next.set(partition, Math.max(reached, position + 1))
  const first = records.findIndex(({ offset }) => offset >= position)
  return { partition, records: first === 0 ? records : first < 0 ? [] : records.slice(first), stableEnd }
}
