/**
 * Publishes records with append times of the test's own, as brokers with other clocks would stamp them.
 *
 * Its topics take the producer's time from then on (CreateTime), whatever set-up has given them. Invariant: `send` resolves when all
 * in-sync replicas hold the records, in their order.
 */
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { groupByTopic, type Outgoing } from '#infra/kafka/publisher.ts'
import { setTopicSettings } from '#infra/kafka/topic-admin.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'

/** Publishes with a stamp for each send. */
export interface StampedPublisher {
  send(records: readonly Outgoing[], appendedAt: number): Promise<void>
  close(): Promise<void>
}

const SETTINGS = {
  'message.timestamp.type': 'CreateTime',
  'message.timestamp.after.max.ms': String(2n ** 63n - 1n),
}

/** Opens a publisher of some topics. */
export async function openStampedPublisher(
  kafka: KafkaConnection,
  keys: readonly TopicKey[],
): Promise<StampedPublisher> {
  await kafka.codec.prepare(keys.flatMap(key => [...topics[key].events]))
  await setTopicSettings(kafka, new Map(keys.map(key => [kafka.topicName(key), SETTINGS])))
  const producer = kafka.newClient('stamped').producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  const writers = keys.map(key => topics[key].writer)
  return {
    async send(records, appendedAt) {
      const timestamp = String(appendedAt)
      const topicMessages = groupByTopic(kafka, records, writers).map(({ topic, messages }) => ({
        topic,
        messages: messages.map(message => ({ ...message, timestamp })),
      }))
      await producer.sendBatch({ acks: -1, topicMessages })
    },
    close: () => producer.disconnect(),
  }
}
