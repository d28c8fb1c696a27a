import { type TopicKey, topics } from '#schemas/topics.ts'
import { groupOffsets } from './committed-offsets.ts'
import type { KafkaConnection } from './connection.ts'
import { openRangeReader, type RangeReader } from './range-reader.ts'

/** Up to this distance a fetch finds out whether only transaction markers are left. */
const PROBE_BELOW = 5_000

/** A position in a partition, and the end that it is measured against. */
interface Stretch {
  topic: string
  partition: number
  position: number
  end: number
}

/** The position moved over what no consumer ever sees: expired records, transaction markers and aborted records. */
export async function nextRecordAt(
  reader: Pick<RangeReader, 'start' | 'fetch'>,
  { topic, partition, position, end }: Stretch,
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

/** A group's distance to the end of one partition. */
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

/** Reads the log's ends and the groups' positions. */
export interface LagReader {
  /** Distance of each group on each partition of a topic to the ends given, else to the ends of now. */
  read(groups: readonly { group: string; topic: TopicKey }[], ends?: Ends): Promise<PartitionLag[]>
  ends(keys: readonly TopicKey[]): Promise<Ends>
  close(): Promise<void>
}

const NOTHING_COMMITTED = { next: -1, note: '' }

/** Opens a reader of some topics and the groups that read them. */
export async function openLagReader(kafka: KafkaConnection, keys: readonly TopicKey[]): Promise<LagReader> {
  const reader = await openRangeReader(kafka, [...new Set(keys.map(kafka.topicName))])
  const admin = kafka.newClient('lag').admin()
  await admin.connect().catch(async error => {
    await reader.close()
    throw error
  })
  const ends: LagReader['ends'] = async wanted => {
    const found: Ends = new Map()
    for (const key of new Set(wanted)) {
      const partitions = Array.from({ length: topics[key].partitions }, (_, partition) => partition)
      found.set(key, await Promise.all(partitions.map(each => reader.end(kafka.topicName(key), each))))
    }
    return found
  }
  return {
    ends,
    async read(groups, given) {
      const targets = given ?? (await ends(groups.map(each => each.topic)))
      const lags: PartitionLag[] = []
      for (const each of groups) {
        const name = kafka.topicName(each.topic)
        const positions = await groupOffsets(admin, kafka.groupName(each.group), name)
        for (const [partition, end] of (targets.get(each.topic) ?? []).entries()) {
          const { next, note } = positions.get(partition) ?? NOTHING_COMMITTED
          const position = await nextRecordAt(reader, { topic: name, partition, position: next, end })
          const lag = Math.max(0, end - position)
          lags.push({ group: each.group, topic: topics[each.topic].name, partition, position, end, lag, note })
        }
      }
      return lags
    },
    async close() {
      await reader.close()
      await admin.disconnect()
    },
  }
}
