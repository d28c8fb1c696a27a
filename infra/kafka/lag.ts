/** The committed offsets of groups, and their distance to the log's end. */
import type { Admin } from 'kafkajs'
import pRetry from 'p-retry'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { withAdmin } from './admin.ts'
import type { KafkaConnection } from './connection.ts'
import { openRangeReader, type RangeReader } from './range-reader.ts'

/**
 * Some 20 seconds of retries: a broker that has just taken a group over refuses it for a moment, which the admin of kafkajs does not
 * retry.
 */
const ASKED_AGAIN = { retries: 12, minTimeout: 100, factor: 1.6, maxTimeout: 3_000 }

/** The committed offset of each partition that has one: one for which the group never committed is missing, never 0. */
export async function committedOffsets(
  kafka: KafkaConnection,
  group: string,
  topic: TopicKey,
): Promise<Map<number, number>> {
  const offsets = await withAdmin(kafka, admin => groupOffsets(admin, kafka.groupName(group), kafka.topicName(topic)))
  return new Map([...offsets].map(([partition, { next }]) => [partition, next]))
}

/** The same by the broker's names, with why the group does not read a partition, through a connected admin; rejects at once with an error that a retry cannot cure. */
export async function groupOffsets(
  admin: Pick<Admin, 'fetchOffsets'>,
  groupId: string,
  topic: string,
): Promise<Map<number, { next: number; note: string }>> {
  const fetched = await pRetry(() => admin.fetchOffsets({ groupId, topics: [topic] }), {
    ...ASKED_AGAIN,
    shouldRetry: ({ error }) => 'retriable' in error && error.retriable === true,
  })
  const partitions = fetched.find(each => each.topic === topic)?.partitions ?? []
  return new Map(
    partitions.flatMap(({ partition, offset, metadata }) =>
      Number(offset) < 0 ? [] : [[partition, { next: Number(offset), note: metadata ?? '' }]],
    ),
  )
}

/** Up to this distance a fetch finds out whether only transaction markers are left. */
const PROBE_BELOW = 5_000

/** The position of a partition moved over what no consumer ever sees: expired records, transaction markers and aborted records. */
export async function nextRecordAt(
  reader: Pick<RangeReader, 'start' | 'fetch'>,
  { topic, partition, position, end }: { topic: string; partition: number; position: number; end: number },
): Promise<number> {
  let at = position
  if (at < end) at = Math.max(at, await reader.start(topic, partition))
  while (at < end && end - at <= PROBE_BELOW) {
    const next = new Map([[partition, at]])
    const [fetched] = await reader.fetch(topic, next, 0)
    const moved = next.get(partition) ?? at
    if (fetched === undefined || fetched.records.length > 0 || moved === at) break
    at = moved
  }
  return at
}

export interface PartitionLag {
  group: string
  topic: string
  partition: number
  /** The next offset that the group wants. */
  position: number
  end: number
  lag: number
  /** Why the group does not go on; empty while it does. */
  note: string
}

/** End offset of each partition, by topic. */
type Ends = Map<TopicKey, number[]>

export type LagReader = Awaited<ReturnType<typeof openLagReader>>

const NOTHING_COMMITTED = { next: -1, note: '' }

export async function openLagReader(kafka: KafkaConnection, keys: readonly TopicKey[]) {
  const reader = await openRangeReader(kafka, [...new Set(keys.map(kafka.topicName))])
  const admin = kafka.newClient('lag').admin()
  await admin.connect().catch(async error => {
    await reader.close()
    throw error
  })
  const ends = async (requested: readonly TopicKey[]): Promise<Ends> => {
    const byTopic: Ends = new Map()
    for (const key of new Set(requested)) {
      const partitions = Array.from({ length: topics[key].partitions }, (_, partition) => partition)
      byTopic.set(key, await Promise.all(partitions.map(each => reader.end(kafka.topicName(key), each))))
    }
    return byTopic
  }
  return {
    ends,
    /** Distance of each group on each partition of a topic to the ends given, else to the ends of now. */
    async read(groups: readonly { group: string; topic: TopicKey }[], targets?: Ends): Promise<PartitionLag[]> {
      const endsOf = targets ?? (await ends(groups.map(each => each.topic)))
      const lags: PartitionLag[] = []
      for (const each of groups) {
        const name = kafka.topicName(each.topic)
        const positions = await groupOffsets(admin, kafka.groupName(each.group), name)
        for (const [partition, end] of (endsOf.get(each.topic) ?? []).entries()) {
          const { next, note } = positions.get(partition) ?? NOTHING_COMMITTED
          const position = await nextRecordAt(reader, { topic: name, partition, position: next, end })
          const lag = Math.max(0, end - position)
          lags.push({ group: each.group, topic: topics[each.topic].name, partition, position, end, lag, note })
        }
      }
      return lags
    },
    async close(): Promise<void> {
      await reader.close()
      await admin.disconnect()
    },
  }
}
