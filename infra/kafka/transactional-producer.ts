/**
 * A producer that writes records and consumer offsets in one Kafka transaction.
 *
 * One per input partition and on a client of its own: the transactional id is what fences a former
 * owner of the partition (an id per process does not: it doubled records). States: opened → locked
 * → between transactions ⇄ in one → broken. Invariant: after any failure the producer is broken and
 * only good for closing, since a failed kafkajs transaction cannot be used again.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { TopicKey } from '#schemas/topics.ts'
import type { KafkaConnection } from './connection.ts'
import { CompressionTypes } from './kafkajs.ts'
import { groupByTopic, type Outgoing } from './publisher.ts'

/** Where a group stands after a transaction. */
export interface ConsumedUpTo {
  group: string
  topic: TopicKey
  partition: number
  next: number
}

/** Writes records and offsets together or not at all. */
export interface TransactionalProducer {
  /** Ends what a former owner left open and fences it; reads of state are sound only afterwards. */
  lock(tick: () => Promise<void>): Promise<void>
  /** Without `upTo` the records alone, for a writer that no topic feeds. */
  commit(records: readonly Outgoing[], upTo?: ConsumedUpTo): Promise<void>
  close(): Promise<void>
}

const TRANSACTION_TIMEOUT_MS = 60_000
const LOCK_TRIES = 50
/** Records of one produce request: a large refresh goes out in several, awaited one by one. */
const RECORDS_PER_SEND = 20_000

/** Opens the producer of one input partition for a writer of the catalogue. */
export async function openTransactionalProducer(
  kafka: KafkaConnection,
  options: { transactionalId: string; writers: readonly string[] },
): Promise<TransactionalProducer> {
  const client = kafka.newClient(`tx-${options.transactionalId}`, {
    retry: { initialRetryTime: 20, multiplier: 1.5, maxRetryTime: 1_000, retries: 40 },
  })
  const producer = client.producer({
    idempotent: true,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: false,
    transactionalId: `${kafka.namespace}${options.transactionalId}`,
    transactionTimeout: TRANSACTION_TIMEOUT_MS,
  })
  await producer.connect()
  return {
    async lock(tick) {
      for (let tries = 1; ; tries++) {
        try {
          await (await producer.transaction()).abort()
          return
        } catch (error) {
          if (tries >= LOCK_TRIES) throw error
          await tick()
          await delay(100)
        }
      }
    },
    async commit(records, upTo) {
      const transaction = await producer.transaction()
      for (let start = 0; start < records.length; start += RECORDS_PER_SEND) {
        const topicMessages = groupByTopic(kafka, records.slice(start, start + RECORDS_PER_SEND), options.writers)
        await transaction.sendBatch({ acks: -1, compression: CompressionTypes.ZSTD, topicMessages })
      }
      if (upTo) await transaction.sendOffsets(offsetsOf(kafka, upTo))
      await transaction.commit()
    },
    close: () => producer.disconnect(),
  }
}

const offsetsOf = (kafka: KafkaConnection, { group, topic, partition, next }: ConsumedUpTo) => ({
  consumerGroupId: kafka.groupName(group),
  topics: [{ topic: kafka.topicName(topic), partitions: [{ partition, offset: String(next) }] }],
})
