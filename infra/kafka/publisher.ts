/**
 * Publishes records to the topics that a role owns.
 *
 * One idempotent producer; sends run one after the other, because concurrent sends on one idempotent
 * kafkajs producer lose acknowledged records when a connection resets. Invariant: `send` resolves
 * only when all in-sync replicas hold the records; a topic of another writer is refused. While a send waits for brokers that
 * are away, that is logged.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Message } from 'kafkajs'
import PQueue from 'p-queue'
import { allTopics, type TopicKey, topics } from '#schemas/topics.ts'
import { withAdmin } from './admin.ts'
import { openBrokerHealth } from './broker-health.ts'
import { CompressionTypes, createPartitioner } from './client/kafkajs.ts'
import { BROKER_RETRY_POLICY, type KafkaConnection } from './connection.ts'
import type { LogRecord } from './range-reader.ts'
import { createTopics } from './topic-admin.ts'

/** A record to publish; without a partition its key decides. A null value is a tombstone. */
export interface Outgoing {
  topic: TopicKey
  key: string
  value: Buffer | null
  partition?: number
}

export type Publisher = Awaited<ReturnType<typeof openPublisher>>

const CLOSE_LIMIT_MS = 5_000

export async function openPublisher(kafka: KafkaConnection, writer: string) {
  const owned = Object.values(topics).filter(topic => topic.writer === writer)
  if (owned.length === 0) throw new Error(`${writer} owns no topic of the catalogue`)
  await kafka.codec.prepare(owned.flatMap(topic => [...topic.events]))
  const sends = new PQueue({ concurrency: 1 })
  const isWaiting = (): boolean => sends.size + sends.pending > 0
  const brokerHealth = openBrokerHealth(kafka, `the writer ${writer}`, isWaiting)
  const producer = kafka.newClient(`publisher-${writer}`, { retry: BROKER_RETRY_POLICY }, brokerHealth.lost).producer({
    idempotent: true,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: false,
    createPartitioner,
  })
  producer.on(producer.events.REQUEST, brokerHealth.answered)
  await producer.connect()
  return {
    async send(records: readonly Outgoing[]): Promise<void> {
      const topicMessages = groupByTopic(kafka, records, [writer])
      await sends.add(() => producer.sendBatch({ acks: -1, compression: CompressionTypes.ZSTD, topicMessages }))
    },
    /** Why records wait, when brokers are away. */
    trouble: () => (isWaiting() ? brokerHealth.trouble() : undefined),
    async close(): Promise<void> {
      brokerHealth.close()
      // What waits for a broker that is away is not acknowledged: no acknowledged record is lost.
      await Promise.race([sends.onIdle(), delay(CLOSE_LIMIT_MS, undefined, { ref: false })])
      await producer.disconnect()
    },
  }
}

/** Groups records by topic as kafkajs takes them; refuses a topic of another writer. */
export function groupByTopic(
  kafka: KafkaConnection,
  records: readonly Outgoing[],
  writers: readonly string[],
): { topic: string; messages: Message[] }[] {
  const byTopic = new Map<TopicKey, Message[]>()
  for (const { topic, ...message } of records) {
    let messages = byTopic.get(topic)
    if (!messages) {
      if (!writers.includes(topics[topic].writer))
        throw new Error(`${writers.join(' and ')} own no ${topics[topic].name}`)
      messages = []
      byTopic.set(topic, messages)
    }
    messages.push(message)
  }
  return [...byTopic].map(([topic, messages]) => ({ topic: kafka.topicName(topic), messages }))
}

const MAX_MESSAGE_BYTES = 16 * 2 ** 20

/**
 * Opens a topic of the operator, by its name without the namespace, for replays: records go there as they are, key, bytes, partition and
 * time. Creates it when it is missing; throws when it is the catalogue's, each of which has its one writer, or has fewer partitions.
 */
export async function openTopicCopy(kafka: KafkaConnection, name: string, partitions: number) {
  if (allTopics.some(topic => topic.name === name)) throw new Error(`${name} has its writer; copies go elsewhere`)
  const topic = kafka.namespace + name
  await provideTopic(kafka, topic, partitions)
  const producer = kafka.newClient(`copy-${name}`).producer({
    idempotent: true,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: false,
    createPartitioner,
    retry: { retries: 20, initialRetryTime: 100, maxRetryTime: 5_000 },
  })
  await producer.connect()
  return {
    async send(records: readonly LogRecord[]): Promise<void> {
      const messages = records.map(({ key, value, partition, timestamp }) => {
        return { key, value, partition, timestamp: String(timestamp) }
      })
      await producer.send({ topic, acks: -1, compression: CompressionTypes.ZSTD, messages })
    },
    close: () => producer.disconnect(),
  }
}

async function provideTopic(kafka: KafkaConnection, topic: string, partitions: number): Promise<void> {
  await withAdmin(kafka, async admin => {
    if (!(await admin.listTopics()).includes(topic)) {
      const configEntries = [{ name: 'max.message.bytes', value: String(MAX_MESSAGE_BYTES) }]
      return createTopics(admin, [{ topic, numPartitions: partitions, configEntries }])
    }
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    const count = topics[0]?.partitions.length ?? 0
    if (count < partitions) throw new Error(`${topic} has ${count} partitions, the source ${partitions}`)
  })
}
