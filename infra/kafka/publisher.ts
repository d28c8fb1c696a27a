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
import { type TopicKey, topics } from '#schemas/topics.ts'
import { openBrokerHealth } from './broker-health.ts'
import { CompressionTypes, createPartitioner } from './client/kafkajs.ts'
import { BROKER_RETRY_POLICY, type KafkaConnection } from './connection.ts'

/** A record to publish; without a partition its key decides. A null value is a tombstone. */
export interface Outgoing {
  topic: TopicKey
  key: string
  value: Buffer | null
  partition?: number
}

/** Publishes records for one writer. */
export interface Publisher {
  send(records: readonly Outgoing[]): Promise<void>
  /** Why records wait, when brokers are away. */
  trouble(): string | undefined
  close(): Promise<void>
}

const CLOSE_LIMIT_MS = 5_000

/** Opens a publisher for a writer of the catalogue and looks the ids of its events up. */
export async function openPublisher(kafka: KafkaConnection, writer: string): Promise<Publisher> {
  const owned = Object.values(topics).filter(topic => topic.writer === writer)
  if (owned.length === 0) throw new Error(`${writer} owns no topic of the catalogue`)
  await kafka.codec.prepare(owned.flatMap(topic => [...topic.events]))
  let waiting = 0
  const { brokers, log } = kafka
  const brokerHealth = openBrokerHealth({ who: `the writer ${writer}`, brokers, log, isWaiting: () => waiting > 0 })
  const producer = kafka.newClient(`publisher-${writer}`, { retry: BROKER_RETRY_POLICY }, brokerHealth.lost).producer({
    idempotent: true,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: false,
    createPartitioner,
  })
  producer.on(producer.events.REQUEST, brokerHealth.answered)
  await producer.connect()
  let last: Promise<unknown> = Promise.resolve()
  return {
    send(records) {
      const topicMessages = groupByTopic(kafka, records, [writer])
      waiting += 1
      const sent = last
        .then(() => producer.sendBatch({ acks: -1, compression: CompressionTypes.ZSTD, topicMessages }))
        .finally(() => {
          waiting -= 1
        })
      last = sent.catch(() => undefined)
      return sent.then(() => undefined)
    },
    trouble: () => (waiting > 0 ? brokerHealth.trouble() : undefined),
    async close() {
      brokerHealth.close()
      // What waits for a broker that is away is not acknowledged: no acknowledged record is lost.
      await Promise.race([last, delay(CLOSE_LIMIT_MS, undefined, { ref: false })])
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
