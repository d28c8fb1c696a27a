/**
 * Publishes records with append times of the test's own, as brokers with other clocks would stamp them.
 *
 * Its topics take the producer's time from then on (CreateTime), whatever set-up has given them. Invariant: `send` resolves when all
 * in-sync replicas hold the records, in their order.
 */
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { groupByTopic, type Outgoing } from '#infra/kafka/publisher.ts'
import { setTopicSettings, type TopicSettings } from '#infra/kafka/topic-admin.ts'
import { withAdmin } from '#infra/kafka/with-admin.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { eventually } from './eventually.ts'

const ANY_TIME = String(2n ** 63n - 1n)
/**
 * One after the other, each when the broker shows the one before. A broker shows a change just before its logs follow it, and it
 * begins with the next when that is done: the first holds for sure once the second is shown.
 */
const SETTINGS: readonly TopicSettings[] = [
  { 'message.timestamp.type': 'CreateTime', 'message.timestamp.after.max.ms': ANY_TIME },
  { 'message.timestamp.before.max.ms': ANY_TIME },
]
/** ConfigResource.Type of Kafka's protocol. */
const TOPIC_RESOURCE = 2

export async function openStampedPublisher(kafka: KafkaConnection, keys: readonly TopicKey[]) {
  await kafka.codec.prepare(keys.flatMap(key => [...topics[key].events]))
  for (const settings of SETTINGS) await applySettings(kafka, keys.map(kafka.topicName), settings)
  const producer = kafka.newClient('stamped').producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  const writers = keys.map(key => topics[key].writer)
  return {
    async send(records: readonly Outgoing[], appendedAt: number): Promise<void> {
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

/** Sets settings of topics and waits until the broker shows them. */
async function applySettings(kafka: KafkaConnection, names: readonly string[], settings: TopicSettings): Promise<void> {
  await setTopicSettings(kafka, new Map(names.map(name => [name, settings])))
  const resources = names.map(name => ({ type: TOPIC_RESOURCE, name, configNames: Object.keys(settings) }))
  await withAdmin(kafka, admin => {
    const isShown = async () => {
      const described = await admin.describeConfigs({ resources, includeSynonyms: false })
      return described.resources.every(({ configEntries }) =>
        Object.entries(settings).every(([name, value]) =>
          configEntries.some(entry => entry.configName === name && entry.configValue === value),
        ),
      )
    }
    return eventually(isShown, 'the topics with times of their own')
  })
}
