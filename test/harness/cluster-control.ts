/**
 * Sees and moves the leaders of a test's own cluster, by the listeners that no proxy harms. Whole means that each broker, asked by itself,
 * sees every partition with a leader and all of its replicas in sync; one that has just woken may still show the cluster as it was.
 */

import { withAdmin } from '#infra/kafka/admin.ts'
import { connectKafka, type KafkaConnection } from '#infra/kafka/connection.ts'
import { eventually } from './eventually.ts'
import type { TestCluster } from './use-cluster.ts'

interface SeenPartition {
  topic: string
  partition: number
  leader: number
  replicas: number[]
  inSync: number[]
}

const ASK_LIMIT_MS = 2_000
/** A change is written by all controllers, on a machine that the platform's faults keep busy. */
const CHANGE_LIMIT_MS = 30_000

export type ClusterControl = ReturnType<typeof openClusterControl>

export function openClusterControl(platform: TestCluster) {
  const connect = (brokers: string[]): KafkaConnection => {
    const { config, log } = platform
    const kafka = { ...config.kafka, tls: undefined, sasl: undefined }
    const servers = { ...config.servers, kafka: brokers }
    return connectKafka({ config: { ...config, kafka, servers }, role: 'test', log })
  }
  const all = connect(platform.cluster.plain)
  /** All partitions, the brokers' own topics included, as one broker sees them; the first that answers unless one is named. */
  const seenBy = (broker?: number): Promise<SeenPartition[]> =>
    readPartitions(broker === undefined ? all : connect([platform.cluster.plain[broker - 1] as string]))

  return {
    partitions: seenBy,
    /** Resolves when the cluster is whole; what is missing is the reason when the limit is over. */
    async whole(limitMs: number): Promise<void> {
      const isWhole = async (): Promise<boolean> => {
        const counts = new Set<number>()
        for (const { id } of platform.cluster.brokers) {
          const seen = await seenBy(id)
          const broken = seen.filter(({ leader, replicas, inSync }) => leader < 0 || inSync.length < replicas.length)
          const [first] = broken
          if (first) throw new Error(`broker ${id} sees ${broken.length} partitions short, ${JSON.stringify(first)}`)
          counts.add(seen.length)
        }
        // One that is starting may know of none yet.
        return counts.size === 1 && !counts.has(0)
      }
      await eventually(isWhole, 'all replicas to be in sync', limitMs)
    },
    /** Makes another replica of each partition its preferred one, which the controller elects; resolves with how many partitions have moved. */
    async moveLeaders(topics: readonly string[], next: (leader: number) => number, limitMs: number): Promise<number> {
      const before = (await seenBy()).filter(({ topic }) => topics.includes(topic))
      const wanted = before.map(one => ({ ...one, to: next(one.leader) }))
      const changed = [...Map.groupBy(wanted, ({ topic }) => topic)].map(([topic, own]) => ({
        topic,
        partitionAssignment: own.map(({ partition, replicas, to }) => ({
          partition,
          replicas: [to, ...replicas.filter(replica => replica !== to)],
        })),
      }))
      await withAdmin(all, admin => admin.alterPartitionReassignments({ topics: changed }), once(CHANGE_LIMIT_MS))
      const isMoved = async (): Promise<boolean> => {
        const now = new Map((await seenBy()).map(({ topic, partition, leader }) => [`${topic}-${partition}`, leader]))
        const late = wanted.find(({ topic, partition, to }) => now.get(`${topic}-${partition}`) !== to)
        if (late) throw new Error(`${late.topic}-${late.partition} is not led by ${late.to}`)
        return true
      }
      await eventually(isMoved, 'the leaders to move', limitMs)
      return wanted.filter(({ leader, to }) => leader !== to).length
    },
  }
}

const once = (requestTimeout: number) => ({ requestTimeout, retry: { retries: 1 } })

/** A new client asks the one broker that it was given. */
async function readPartitions(kafka: KafkaConnection): Promise<SeenPartition[]> {
  const { topics } = await withAdmin(kafka, admin => admin.fetchTopicMetadata(), once(ASK_LIMIT_MS))
  return topics.flatMap(({ name: topic, partitions }) =>
    partitions.map(one => ({ ...one, topic, partition: one.partitionId, inSync: one.isr })),
  )
}
