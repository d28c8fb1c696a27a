/**
 * A producer that writes records and consumer offsets in one Kafka transaction.
 *
 * One per input partition and on a client of its own: the transactional id is what fences a former
 * owner of the partition (an id per process does not: it doubled records). States: opened → locked
 * → between transactions ⇄ in one → broken. Invariant: after any failure the producer is broken and
 * only good for closing, since a failed kafkajs transaction cannot be used again.
 */
import pRetry from 'p-retry'
import { type TopicKey, topics } from '#schemas/topics.ts'
import type { BrokerHealth } from './broker-health.ts'
import { CompressionTypes, createPartitioner } from './client/kafkajs.ts'
import type { KafkaConnection } from './connection.ts'
import { groupByTopic, type Outgoing } from './publisher.ts'

interface ConsumedUpTo {
  group: string
  topic: TopicKey
  partition: number
  next: number
}

export type TransactionalProducer = Awaited<ReturnType<typeof openTransactionalProducer>>

const TRANSACTION_TIMEOUT_MS = 60_000
const LOCK_RETRIES = { retries: 49, minTimeout: 100, factor: 1 }
/** Records of one produce request: a large refresh goes out in several, awaited one by one. */
const RECORDS_PER_SEND = 20_000
/** No reader sees the record that has it. */
const END_KEY = 'end'

interface TransactionalOptions {
  transactionalId: string
  writers: readonly string[]
  /** How long a transaction may hold readers back when its producer is gone; a minute by default. */
  timeoutMs?: number
  /** The first pause while the broker still ends the transaction before; 20 ms by default. */
  firstPauseMs?: number
  brokerHealth?: Pick<BrokerHealth, 'answered' | 'lost'>
}

export async function openTransactionalProducer(kafka: KafkaConnection, options: TransactionalOptions) {
  const retry = { initialRetryTime: options.firstPauseMs ?? 20, multiplier: 1.5, maxRetryTime: 1_000, retries: 40 }
  const client = kafka.newClient(`tx-${options.transactionalId}`, { retry }, options.brokerHealth?.lost)
  const producer = client.producer({
    idempotent: true,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: false,
    createPartitioner,
    transactionalId: `${kafka.namespace}${options.transactionalId}`,
    transactionTimeout: options.timeoutMs ?? TRANSACTION_TIMEOUT_MS,
  })
  if (options.brokerHealth) producer.on(producer.events.REQUEST, options.brokerHealth.answered)
  await producer.connect()
  return {
    /** Ends what a former owner left open and fences it; reads of state are sound only afterwards. */
    lock: (): Promise<void> => pRetry(async () => (await producer.transaction()).abort(), LOCK_RETRIES),
    /**
     * The offset after all that former owners wrote to a partition; once locked, reading up to it reads everything. It is that of
     * an aborted record: a broker that was frozen returns an old end until it learns that another leads, but appends no record.
     */
    async fencedEndOffset(topic: TopicKey, partition: number): Promise<number> {
      const transaction = await producer.transaction()
      const topicMessages = groupByTopic(kafka, [{ topic, partition, key: END_KEY, value: null }], options.writers)
      const [written] = await transaction.sendBatch({ acks: -1, topicMessages })
      await transaction.abort()
      if (written?.baseOffset === undefined)
        throw new Error(`the end of ${topics[topic].name}-${partition} is not known`)
      return Number(written.baseOffset)
    },
    /** Writes records and offsets together or not at all; without `upTo` the records alone, for a writer that no topic feeds. */
    async commit(records: readonly Outgoing[], upTo?: ConsumedUpTo): Promise<void> {
      const transaction = await producer.transaction()
      for (let start = 0; start < records.length; start += RECORDS_PER_SEND) {
        const topicMessages = groupByTopic(kafka, records.slice(start, start + RECORDS_PER_SEND), options.writers)
        await transaction.sendBatch({ acks: -1, compression: CompressionTypes.ZSTD, topicMessages })
      }
      if (upTo) await whileFormerEnds(() => transaction.sendOffsets(offsetsOf(kafka, upTo)))
      await transaction.commit()
    },
    close: () => producer.disconnect(),
  }
}

/**
 * In a transaction without records it is the first request, which the coordinator refuses while it writes the markers of the
 * transaction before. kafkajs repeats only the request that adds partitions (client/send-messages.ts).
 */
const whileFormerEnds = (begin: () => Promise<void>): Promise<void> =>
  pRetry(begin, {
    retries: 40,
    minTimeout: 20,
    factor: 1.5,
    maxTimeout: 1_000,
    shouldRetry: ({ error }) => (error as { type?: string }).type === 'CONCURRENT_TRANSACTIONS',
  })

/** Errors of a producer whose id another has, or whose transaction the brokers ended themselves. */
const FENCED = new Set(['INVALID_PRODUCER_EPOCH', 'INVALID_PRODUCER_ID_MAPPING', 'INVALID_TXN_STATE'])

/** Whether a write failed because the producer's epoch is over. */
export function isFenced(error: unknown): boolean {
  for (let each = error; each instanceof Error; each = each.cause) {
    if (FENCED.has((each as { type?: string }).type ?? '')) return true
  }
  return false
}

const offsetsOf = (kafka: KafkaConnection, { group, topic, partition, next }: ConsumedUpTo) => ({
  consumerGroupId: kafka.groupName(group),
  topics: [{ topic: kafka.topicName(topic), partitions: [{ partition, offset: String(next) }] }],
})
