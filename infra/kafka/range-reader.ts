/**
 * Reads partitions from offset to offset, read_committed, without a consumer group.
 *
 * For state that is restored before a group's records are processed, and for readers that every
 * instance runs for itself. Built on the pinned client's own connection pool, since its consumer
 * cannot do either. Invariant: reading ends at the given end even when compaction or transactions
 * emptied the records before it, and what is handed over can be decoded at once; every wait has a limit. Leaders are looked up again
 * at once when one is away or leads no more.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { type Cluster, openCluster } from './client/cluster.ts'
import { type DecodedRecord, errorOf, type FetchedRecords, fetchRecords } from './client/fetch-decoding.ts'
import { Decoder, Encoder, type WireConnection, type WireDecoder } from './client/wire.ts'
import type { Codec } from './codec.ts'
import { BROKER_RETRY_LIMIT_MS, type KafkaConnection } from './connection.ts'
import { refusalOf } from './refusal.ts'

/** A record as the log holds it. */
export type LogRecord = DecodedRecord

const FETCH_BYTES = 4 * 2 ** 20
/** A leader that has just become one may show an earlier end. */
const SHORT_LIMIT_MS = 5_000
const READ_LIMIT_MS = 120_000
const CONNECT_AGAIN_MS = 500
/** While some broker answers: a cluster that is busy may take a minute to miss a broker and to elect others in its place. */
const LEADER_LIMIT_MS = 120_000
/** While none does. */
const ANSWER_LIMIT_MS = 5_000
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
  /**
   * One fetch over several partitions from their next offsets; moves `next` past what came. Throws when nothing came and something
   * failed; leaders are looked up again before that, so that the next fetch asks the new ones.
   */
  fetch(
    topic: string,
    next: Map<number, number>,
    waitMs: number,
  ): Promise<{ partition: number; records: LogRecord[]; stableEnd: number }[]>
  /** Removes a dead member from its group, so that its partitions need not wait for its session to end. */
  leaveGroup(groupId: string, memberId: string): Promise<void>
  close(): Promise<void>
}

/**
 * Opens a reader for some topics, named with their namespace; a fetch returns `fetchBytes` of a partition, 4 MiB by default.
 * While brokers are away it retries for `connectLimitMs`, {@link BROKER_RETRY_LIMIT_MS} by default.
 */
export async function openRangeReader(
  kafka: KafkaConnection,
  topics: string[],
  options: { fetchBytes?: number; connectLimitMs?: number } = {},
): Promise<RangeReader> {
  const cluster = openCluster({ ...kafka, clientId: `${kafka.namespace}${kafka.role}-reader` })
  await connected(cluster, options.connectLimitMs ?? BROKER_RETRY_LIMIT_MS)
  await cluster.addMultipleTargetTopics(topics)
  return readerOf(cluster, kafka.codec, options.fetchBytes ?? FETCH_BYTES)
}

async function connected(cluster: Cluster, connectLimitMs: number): Promise<void> {
  const startedAt = performance.now()
  for (;;) {
    try {
      return await cluster.connect()
    } catch (error) {
      if (refusalOf(error) !== undefined || performance.now() - startedAt > connectLimitMs) throw error
      await delay(CONNECT_AGAIN_MS)
    }
  }
}

function readerOf(cluster: Cluster, codec: Codec, fetchBytes: number): RangeReader {
  const leaderOf = (topic: string, partition: number): string => {
    const nodeId = Object.keys(cluster.findLeaderForPartitions(topic, [partition]))[0]
    if (nodeId !== undefined) return nodeId
    throw Object.assign(new Error(`${topic}-${partition} has no leader`), { retriable: true })
  }
  const offset = async (topic: string, partition: number, isolationLevel: number, timestamp: number): Promise<number> =>
    whileLeaderMoves(cluster, async () => {
      await cluster.refreshMetadataIfNecessary()
      const broker = await cluster.findBroker({ nodeId: leaderOf(topic, partition) })
      const { responses } = await broker.listOffsets({
        isolationLevel,
        topics: [{ topic, partitions: [{ partition, timestamp }] }],
      })
      return Number(responses[0]?.partitions[0]?.offset)
    })
  const fetch: RangeReader['fetch'] = async (topic, next, waitMs) => {
    await cluster.refreshMetadataIfNecessary()
    const byLeader = Map.groupBy(next.keys(), partition => leaderOf(topic, partition))
    const answers = await Promise.allSettled(
      [...byLeader].map(async ([nodeId, partitions]) =>
        fetchRecords(
          await cluster.findBroker({ nodeId }),
          fetchRequest(topic, partitions, { next, waitMs, fetchBytes }),
        ),
      ),
    )
    return takeFetched({ cluster, codec }, next, answers)
  }
  const start: RangeReader['start'] = (topic, partition) => offset(topic, partition, READ_UNCOMMITTED, -2)
  const end: RangeReader['end'] = (topic, partition) => offset(topic, partition, READ_UNCOMMITTED, -1)
  return {
    end,
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
      let isThereAt = Date.now()
      for (;;) {
        const position = next.get(partition) ?? to
        if (position >= to) return
        if (Date.now() > limit)
          throw new Error(`${topic}-${partition}: ${position} of ${to} read in ${READ_LIMIT_MS} ms`)
        const [fetched] = await whileLeaderMoves(cluster, () => fetch(topic, next, 100))
        for (const record of fetched?.records ?? []) {
          const handled = record.offset < to ? onRecord(record) : undefined
          if (handled) await handled
        }
        if (tick) await tick()
        if (next.get(partition) !== position) continue
        // A transaction is still open below the end: it ends by commit, abort or timeout. Or the topic was created again.
        if ((await end(topic, partition)) >= to) isThereAt = Date.now()
        else if (Date.now() - isThereAt > SHORT_LIMIT_MS) throw new Error(`${topic}-${partition} ends before ${to}`)
        await delay(20)
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

/** Asks again while a partition has no leader that knows of it: just after its topic was created, as it moves, or its broker ends. */
async function whileLeaderMoves<T>(cluster: Cluster, ask: () => Promise<T>): Promise<T> {
  const startedAt = performance.now()
  let answeredAt = startedAt
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      const now = performance.now()
      const isOver = now - startedAt > LEADER_LIMIT_MS || now - answeredAt > ANSWER_LIMIT_MS
      if (!isPassing(error) || isOver) throw error
      await delay(LEADER_PAUSE_MS)
      if (await refreshIfAnswered(cluster)) answeredAt = performance.now()
    }
  }
}

/** Whether the log does not hold an offset that was asked for. */
export const isOutOfRange = (error: unknown): boolean => (error as { type?: string }).type === 'OFFSET_OUT_OF_RANGE'

/** Whether what failed may succeed when it is asked again: a leader that moves, a broker that is away. */
const isPassing = (error: unknown): boolean => (error as { retriable?: boolean }).retriable === true

/** Whether a broker returned the leaders; what fails here fails again at the next request, which reports it. */
const refreshIfAnswered = (cluster: Cluster): Promise<boolean> =>
  cluster.refreshMetadata().then(
    () => true,
    () => false,
  )

/**
 * What the leaders returned. When one is away, or leads no more, the others' records are returned, and its partitions are fetched
 * from their new leaders next time. Throws when nothing came and something failed; `next` has not moved then.
 */
async function takeFetched(
  { cluster, codec }: { cluster: Cluster; codec: Codec },
  next: Map<number, number>,
  answers: PromiseSettledResult<FetchedRecords[]>[],
): Promise<{ partition: number; records: LogRecord[]; stableEnd: number }[]> {
  const fetched = answers.flatMap(answer => (answer.status === 'fulfilled' ? answer.value : []))
  for (const { records } of fetched) await codec.learn(records)
  const errors: unknown[] = [
    ...answers.flatMap(answer => (answer.status === 'rejected' ? [answer.reason] : [])),
    ...fetched.flatMap(one => errorOf(one) ?? []),
  ]
  if (errors.length === 0) return fetched.map(one => advance(next, one))
  await refreshIfAnswered(cluster)
  const final = errors.find(error => !isPassing(error))
  const brought = fetched.filter(one => one.errorCode === 0 && one.next !== undefined)
  if (final !== undefined || brought.length === 0) throw final ?? errors[0]
  return brought.map(one => advance(next, one))
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

/** The bytes of a partition on one broker. */
interface PartitionBytes {
  topic: string
  partition: number
  bytes: number
}

const DESCRIBE_LOG_DIRS = 35
const ALL_TOPICS = -1

/** The bytes of every partition of a broker (DescribeLogDirs, which the client lacks); a future replica is not counted. */
async function readLogDirs(connection: WireConnection): Promise<PartitionBytes[]> {
  return connection.send<PartitionBytes[]>({
    request: {
      apiKey: DESCRIBE_LOG_DIRS,
      apiVersion: 1,
      apiName: 'DescribeLogDirs',
      encode: async () => new Encoder().writeInt32(ALL_TOPICS),
    },
    response: { decode: async (bytes: Buffer) => decodeLogDirs(new Decoder(bytes)), parse: decoded => decoded },
  })
}

function decodeLogDirs(decoder: WireDecoder): PartitionBytes[] {
  decoder.readInt32() // throttle time
  return decoder
    .readArray(dirs => {
      dirs.readInt16() // error code: a directory that is offline lists nothing
      dirs.readString()
      return dirs
        .readArray(one => {
          const topic = one.readString()
          return one.readArray(each => {
            const partition = each.readInt32()
            const bytes = Number(each.readInt64().toString())
            each.readInt64() // distance of a replica that is being filled
            return { topic, partition, bytes, isFuture: each.readBoolean() }
          })
        })
        .flat()
    })
    .flat()
    .filter(({ isFuture }) => !isFuture)
    .map(({ topic, partition, bytes }) => ({ topic, partition, bytes }))
}
