/**
 * Reads partitions from offset to offset, read_committed, without a consumer group.
 *
 * For state that is restored before a group's records are processed, and for readers that every
 * instance runs for itself. Built on the pinned client's own connection pool, since its consumer
 * cannot do either. Invariant: reading ends at the given end even when compaction or transactions
 * emptied the records before it; every wait has a limit.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { BROKER_PATIENCE_MS, type KafkaConnection } from './connection.ts'
import { type DecodedRecord, type FetchedRecords, type FetchingBroker, fetchRecords } from './fetch-decoding.ts'
import { loadInternal, logLevel } from './kafkajs.ts'
import { type PartitionBytes, readLogDirs, type WireConnection } from './log-dirs.ts'

/** A record as the log holds it. */
export type LogRecord = DecodedRecord

interface Broker extends FetchingBroker {
  listOffsets(request: object): Promise<{ responses: { partitions: { offset: string }[] }[] }>
  leaveGroup(request: { groupId: string; memberId: string }): Promise<unknown>
  connectionPool: WireConnection
}

interface Cluster {
  connect(): Promise<void>
  disconnect(): Promise<void>
  addMultipleTargetTopics(topics: string[]): Promise<void>
  refreshMetadataIfNecessary(): Promise<void>
  refreshMetadata(): Promise<void>
  findLeaderForPartitions(topic: string, partitions: number[]): Record<string, number[]>
  findBroker(node: { nodeId: string }): Promise<Broker>
  findGroupCoordinator(group: { groupId: string }): Promise<Broker>
  brokerPool: { metadata: { brokers: { nodeId: string }[] } | null }
}

const ClusterClass = loadInternal('cluster') as new (options: object) => Cluster
const socketFactory = loadInternal('network/socketFactory') as () => unknown
const { createLogger } = loadInternal('loggers') as { createLogger(options: object): unknown }

const FETCH_BYTES = 4 * 2 ** 20
const READ_LIMIT_MS = 120_000
const CONNECT_AGAIN_MS = 500
const LEADER_TRIES = 50
const LEADER_PAUSE_MS = 100
const READ_COMMITTED = 1
const READ_UNCOMMITTED = 0

/** Reads partitions without a group. */
export interface RangeReader {
  /** The offset after the last record, open transactions included. */
  end(topic: string, partition: number): Promise<number>
  /** The offset after the last record that no open transaction holds back. */
  stableEnd(topic: string, partition: number): Promise<number>
  start(topic: string, partition: number): Promise<number>
  /** The first offset that the log took at a time or later; the stable end when there is none. */
  atTime(topic: string, partition: number, timestamp: number): Promise<number>
  /** Bytes on disk of every partition of the brokers, one replica of each. */
  diskBytes(): Promise<PartitionBytes[]>
  /** Reads [from, to) in order; `tick` runs after each fetch, to keep a group membership alive. */
  read(
    range: { topic: string; partition: number; from: number; to: number },
    onRecord: (record: LogRecord) => void | Promise<void>,
    tick?: () => Promise<void>,
  ): Promise<void>
  /** One fetch over several partitions from their next offsets; moves `next` past what came. */
  fetch(
    topic: string,
    next: Map<number, number>,
    waitMs: number,
  ): Promise<{ partition: number; records: LogRecord[]; stableEnd: number }[]>
  /** Takes a dead member out of its group, so that its partitions need not wait for its session to end. */
  leaveGroup(groupId: string, memberId: string): Promise<void>
  close(): Promise<void>
}

/**
 * Opens a reader for some topics, named with their namespace; a fetch brings `fetchBytes` of a partition, 4 MiB unless told.
 * Brokers that are away are waited for as a role would, or for `patienceMs`.
 */
export async function openRangeReader(
  kafka: KafkaConnection,
  topics: string[],
  options: { fetchBytes?: number; patienceMs?: number } = {},
): Promise<RangeReader> {
  const cluster = new ClusterClass({
    logger: createLogger({ level: logLevel.NOTHING, logCreator: () => () => undefined }),
    socketFactory: socketFactory(),
    brokers: [...kafka.brokers],
    clientId: `${kafka.namespace}${kafka.role}-reader`,
    connectionTimeout: 3_000,
    requestTimeout: 30_000,
    enforceRequestTimeout: true,
    metadataMaxAge: 300_000,
    allowAutoTopicCreation: false,
    // Whoever reads hears soon that brokers are away, and decides.
    retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 6 },
  })
  await connected(cluster, options.patienceMs ?? BROKER_PATIENCE_MS)
  await cluster.addMultipleTargetTopics(topics)
  return readerOf(cluster, options.fetchBytes ?? FETCH_BYTES)
}

async function connected(cluster: Cluster, patienceMs: number): Promise<void> {
  const startedAt = performance.now()
  for (;;) {
    try {
      return await cluster.connect()
    } catch (error) {
      if (performance.now() - startedAt > patienceMs) throw error
      await delay(CONNECT_AGAIN_MS)
    }
  }
}

function readerOf(cluster: Cluster, fetchBytes: number): RangeReader {
  const leaderOf = async (topic: string, partition: number): Promise<Broker> => {
    await cluster.refreshMetadataIfNecessary()
    const nodeId = Object.keys(cluster.findLeaderForPartitions(topic, [partition]))[0]
    if (nodeId === undefined) {
      await cluster.refreshMetadata()
      throw new Error(`${topic}-${partition} has no leader`)
    }
    return cluster.findBroker({ nodeId })
  }
  const offset = async (topic: string, partition: number, isolationLevel: number, timestamp: number): Promise<number> =>
    whileLeaderMoves(cluster, async () => {
      const broker = await leaderOf(topic, partition)
      const { responses } = await broker.listOffsets({
        isolationLevel,
        topics: [{ topic, partitions: [{ partition, timestamp }] }],
      })
      return Number(responses[0]?.partitions[0]?.offset)
    })
  const fetch: RangeReader['fetch'] = async (topic, next, waitMs) => {
    const byBroker = new Map<Broker, number[]>()
    for (const partition of next.keys()) {
      const broker = await leaderOf(topic, partition)
      byBroker.set(broker, [...(byBroker.get(broker) ?? []), partition])
    }
    const answers = await Promise.all(
      [...byBroker].map(([broker, partitions]) =>
        fetchRecords(broker, fetchRequest(topic, partitions, { next, waitMs, fetchBytes })),
      ),
    )
    return answers.flat().map(fetched => advance(next, fetched))
  }
  const start: RangeReader['start'] = (topic, partition) => offset(topic, partition, READ_UNCOMMITTED, -2)
  return {
    end: (topic, partition) => offset(topic, partition, READ_UNCOMMITTED, -1),
    stableEnd: (topic, partition) => offset(topic, partition, READ_COMMITTED, -1),
    start,
    async atTime(topic, partition, timestamp) {
      const found = await offset(topic, partition, READ_COMMITTED, timestamp)
      return found >= 0 ? found : offset(topic, partition, READ_COMMITTED, -1)
    },
    diskBytes: () => diskBytesOf(cluster),
    fetch,
    async read(range, onRecord, tick) {
      const { topic, partition, to } = range
      const next = new Map([[partition, Math.max(range.from, await start(topic, partition))]])
      const limit = Date.now() + READ_LIMIT_MS
      for (;;) {
        const position = next.get(partition) ?? to
        if (position >= to) return
        if (Date.now() > limit)
          throw new Error(`${topic}-${partition}: ${position} of ${to} read in ${READ_LIMIT_MS} ms`)
        const [fetched] = await fetch(topic, next, 100)
        for (const record of fetched?.records ?? []) {
          const handled = record.offset < to ? onRecord(record) : undefined
          if (handled) await handled
        }
        if (tick) await tick()
        // Somebody's transaction is still open below the end: it ends by commit, abort or timeout.
        if (next.get(partition) === position) await delay(20)
      }
    },
    leaveGroup: (groupId, memberId) => leaveGroup(cluster, groupId, memberId),
    close: () => cluster.disconnect(),
  }
}

async function leaveGroup(cluster: Cluster, groupId: string, memberId: string): Promise<void> {
  const coordinator = await cluster.findGroupCoordinator({ groupId })
  await coordinator.leaveGroup({ groupId, memberId })
}

/** Of the replicas of a partition the largest: the others may be on their way. */
async function diskBytesOf(cluster: Cluster): Promise<PartitionBytes[]> {
  const largest = new Map<string, PartitionBytes>()
  for (const { nodeId } of cluster.brokerPool.metadata?.brokers ?? []) {
    const { connectionPool } = await cluster.findBroker({ nodeId })
    for (const one of await readLogDirs(connectionPool)) {
      const name = `${one.topic}/${one.partition}`
      if ((largest.get(name)?.bytes ?? -1) < one.bytes) largest.set(name, one)
    }
  }
  return [...largest.values()]
}

/** Asks again while a partition has no leader that knows of it: just after its topic was created, or as it moves. */
async function whileLeaderMoves<T>(cluster: Cluster, ask: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await ask()
    } catch (error) {
      if (!(error as { retriable?: boolean }).retriable || tries >= LEADER_TRIES) throw error
      await delay(LEADER_PAUSE_MS)
      await cluster.refreshMetadata()
    }
  }
}

function fetchRequest(
  topic: string,
  partitions: number[],
  { next, waitMs, fetchBytes }: { next: Map<number, number>; waitMs: number; fetchBytes: number },
): object {
  return {
    maxWaitTime: waitMs,
    minBytes: 1,
    maxBytes: fetchBytes * 2,
    isolationLevel: READ_COMMITTED,
    topics: [
      {
        topic,
        partitions: partitions.map(partition => ({
          partition,
          fetchOffset: String(next.get(partition)),
          maxBytes: fetchBytes,
        })),
      },
    ],
  }
}

/** Moves a partition's next offset past what came and returns the records from there on: a batch may begin before. */
function advance(
  next: Map<number, number>,
  { partition, records, stableEnd, next: reached }: FetchedRecords,
): { partition: number; records: LogRecord[]; stableEnd: number } {
  const position = next.get(partition) ?? 0
  if (reached === undefined) return { partition, records: [], stableEnd }
  next.set(partition, Math.max(reached, position + 1))
  const first = records.findIndex(({ offset }) => offset >= position)
  return { partition, records: first === 0 ? records : first < 0 ? [] : records.slice(first), stableEnd }
}
