/**
 * Writes records as they are, key, bytes, partition and time, to a topic outside the catalogue.
 *
 * For replays into a topic of the operator. Creates the topic when it is missing. Invariant: a topic of the catalogue is
 * refused, since each of them has its one writer; sends run one after the other and resolve when all in-sync replicas
 * hold the records.
 */
import { allTopics } from '#schemas/topics.ts'
import { CompressionTypes, createPartitioner } from './client/kafkajs.ts'
import type { KafkaConnection } from './connection.ts'
import { createTopics } from './topic-admin.ts'
import type { ScannedRecord } from './topic-scan.ts'
import { withAdmin } from './with-admin.ts'

/** A topic that takes copies. */
interface TopicCopy {
  send(records: readonly ScannedRecord[]): Promise<void>
  close(): Promise<void>
}

const MAX_MESSAGE_BYTES = 16 * 2 ** 20

/** Opens a topic by its name without the namespace. Throws when it is the catalogue's or has fewer partitions. */
export async function openTopicCopy(kafka: KafkaConnection, name: string, partitions: number): Promise<TopicCopy> {
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
    async send(records) {
      const messages = records.map(({ key, value, partition, timestamp }) => {
        return { key, value, partition, timestamp: String(timestamp) }
      })
      await producer.send({ topic, acks: -1, compression: CompressionTypes.ZSTD, messages })
    },
    close: () => producer.disconnect(),
  }
}

async function provideTopic(kafka: KafkaConnection, topic: string, partitions: number): Promise<void> {
  return withAdmin(
    kafka,
    async admin => {
      const exists = (await admin.listTopics()).includes(topic)
      if (!exists) {
        const configEntries = [{ name: 'max.message.bytes', value: String(MAX_MESSAGE_BYTES) }]
        await createTopics(admin, [{ topic, numPartitions: partitions, configEntries }])
        return
      }
      const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
      const found = topics[0]?.partitions.length ?? 0
      if (found < partitions) throw new Error(`${topic} has ${found} partitions, the source ${partitions}`)
    },
    { name: 'copy' },
  )
}
