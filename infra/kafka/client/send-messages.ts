/**
 * kafkajs remembers answers to produce requests by broker, and repeats while other requests are under way. A partition that moves to a
 * broker that has answered is then never sent, and the send resolves; the records of a slow broker are sent again with the next
 * sequence, and are in the log twice.
 *
 * Here each partition of a send has an entry of its own, and nothing is decided before every request of a round has settled. Entry:
 * waiting → sent → written, or waiting again. Its records and first sequence never change, so a broker that has them already
 * recognizes the repeat; a sequence advances with the answer that they are written. Sends of a producer run one after the other: newer
 * records never overtake a repeat. In a transaction nothing is repeated: the first error fails the send, and the caller must abort. Outside
 * one, entries are repeated until the retry policy ends. A send that failed may have been written: its sequences are never
 * given to other records, the next send begins with another producer id.
 */
import PQueue from 'p-queue'
import { loadInternal, replaceExport } from './internals.ts'
import { type ExchangingBroker, withErrors, withExchanges } from './wire.ts'

interface Message {
  value: Buffer | string | null
}

interface SendOptions {
  acks: number
  timeout?: number
  compression?: number
  topicMessages: { topic: string; messages: Message[] }[]
}

interface PartitionAnswer {
  partition: number
  errorCode: number
}

interface Broker extends ExchangingBroker {
  produce(request: object): Promise<{ topics: { topicName: string; partitions: PartitionAnswer[] }[] } | undefined>
}

interface Cluster {
  isConnected(): boolean
  connect(): Promise<void>
  addMultipleTargetTopics(topics: string[]): Promise<void>
  refreshMetadata(): Promise<void>
  refreshMetadataIfNecessary(): Promise<void>
  findTopicPartitionMetadata(topic: string): object[]
  findLeaderForPartitions(topic: string, partitions: number[]): Record<string, number[]>
  findBroker(node: { nodeId: string }): Promise<Broker>
  removeBroker(address: { host: string; port: number }): void
}

interface TopicData {
  topic: string
  partitions: { partition: number; messages: Message[]; firstSequence: number }[]
}

interface EosManager {
  isInitialized(): boolean
  isTransactional(): boolean
  initProducerId(): Promise<void>
  getProducerId(): number | string
  getProducerEpoch(): number
  getTransactionalId(): string | undefined
  getSequence(topic: string, partition: number): number
  updateSequence(topic: string, partition: number, increment: number): void
  addPartitionsToTransaction(topics: TopicData[]): Promise<void>
}

interface Parts {
  cluster: Cluster
  eosManager: EosManager
  partitioner(choice: { topic: string; partitionMetadata: object[]; message: Message }): number
  retrier<T>(work: (bail: (error: unknown) => void) => Promise<T>): Promise<T>
}

interface Entry {
  topic: string
  partition: number
  messages: Message[]
  firstSequence: number
  answer: PartitionAnswer | undefined
  error: unknown
  isRepeat: boolean
}

interface ClientError extends Error {
  retriable?: boolean
  type?: string
}

type SentPartition = PartitionAnswer & { topicName: string }

const { createErrorFromCode } = loadInternal('protocol/error') as { createErrorFromCode(code: number): Error }
const { KafkaJSMetadataNotLoaded } = loadInternal('errors') as { KafkaJSMetadataNotLoaded: new (why: string) => Error }

const DUPLICATE_SEQUENCE_NUMBER = 46
/** Sequences are 31 bits wide and begin again at 0. */
const SEQUENCES = 2 ** 31

export const correctSends = (): void => replaceExport('producer/sendMessages', () => openSends)

/** The client calls this for every send of a producer, or of one transaction. */
function openSends(parts: Parts): (options: SendOptions) => Promise<SentPartition[]> {
  const { eosManager } = parts
  const sends = new PQueue({ concurrency: 1 })
  let isIdentitySpent = false
  const run = async (options: SendOptions): Promise<SentPartition[]> => {
    if (isIdentitySpent) {
      await retried(parts, () => eosManager.initProducerId())
      isIdentitySpent = false
    }
    const entries = await retried(parts, () => entriesOf(parts, options.topicMessages))
    try {
      if (eosManager.isTransactional()) await sendOnce(parts, options, entries)
      else await retried(parts, () => sendWaiting(parts, options, entries))
    } catch (error) {
      isIdentitySpent = eosManager.isInitialized() && !eosManager.isTransactional()
      throw error
    }
    return entries.flatMap(({ topic, answer }) => (answer ? [{ topicName: topic, ...answer }] : []))
  }
  return options => (eosManager.isInitialized() ? sends.add(() => run(options)) : run(options))
}

/** Repeats what failed for a passing reason, with metadata asked for again, until the retry policy ends. */
function retried<T>({ cluster, retrier }: Parts, work: () => Promise<T>): Promise<T> {
  return retrier(async bail => {
    try {
      return await work()
    } catch (error) {
      if (!(error as ClientError).retriable) bail(error)
      else {
        if (!cluster.isConnected()) await cluster.connect()
        await cluster.refreshMetadata()
      }
      throw error
    }
  })
}

/** The partitions of a send; a record's partition is chosen once, whatever is repeated later. */
async function entriesOf(
  { cluster, partitioner, eosManager }: Parts,
  sent: SendOptions['topicMessages'],
): Promise<Entry[]> {
  await cluster.addMultipleTargetTopics(sent.map(({ topic }) => topic))
  await cluster.refreshMetadataIfNecessary()
  return sent.flatMap(({ topic, messages }) => {
    const partitionMetadata = cluster.findTopicPartitionMetadata(topic)
    if (partitionMetadata.length === 0) throw new KafkaJSMetadataNotLoaded('Producing to topic without metadata')
    // The client copies the list of a partition for every message: quadratic, 38 percent of the book's time at 20,000 records a send.
    const groups = Map.groupBy(messages, message => partitioner({ topic, partitionMetadata, message }))
    return [...groups].map(([partition, own]): Entry => {
      const firstSequence = eosManager.getSequence(topic, partition)
      return { topic, partition, messages: own, firstSequence, answer: undefined, error: undefined, isRepeat: false }
    })
  })
}

/** Sends the partitions of a transaction: whatever fails, fails it. */
async function sendOnce(parts: Parts, options: SendOptions, entries: readonly Entry[]): Promise<void> {
  await whileFormerEnds(parts, () => parts.eosManager.addPartitionsToTransaction(topicDataOf(entries)))
  await sendRound(parts, options, entries)
  throwFirstError(entries)
}

/** The coordinator may still be writing the markers of the transaction before. */
function whileFormerEnds({ retrier }: Parts, begin: () => Promise<void>): Promise<void> {
  return retrier(async bail => {
    try {
      await begin()
    } catch (error) {
      if ((error as ClientError).type !== 'CONCURRENT_TRANSACTIONS') bail(error)
      throw error
    }
  })
}

/** Sends what is not written yet; throws when some of it still is not, and first what no repeat can mend. */
async function sendWaiting(parts: Parts, options: SendOptions, entries: readonly Entry[]): Promise<void> {
  await parts.cluster.refreshMetadataIfNecessary()
  const waiting = entries.filter(({ answer }) => answer === undefined)
  await sendRound(parts, options, waiting)
  throwFirstError(waiting.filter(({ error }) => error !== undefined && !(error as ClientError).retriable))
  throwFirstError(waiting)
}

function throwFirstError(entries: readonly Entry[]): void {
  for (const { error } of entries) if (error !== undefined) throw error
}

/** One request to each leader, at once; over when all have been answered or have failed. */
async function sendRound(parts: Parts, options: SendOptions, entries: readonly Entry[]): Promise<void> {
  const byLeader = Map.groupBy(entries, ({ topic, partition }) => leaderOf(parts.cluster, topic, partition))
  await Promise.all([...byLeader].map(([nodeId, own]) => sendTo(parts, options, nodeId, own)))
}

const leaderOf = (cluster: Cluster, topic: string, partition: number): string =>
  Object.keys(cluster.findLeaderForPartitions(topic, [partition]))[0] ?? ''

/** Sends to one leader. Never throws: what came of it is kept with each entry. */
async function sendTo(parts: Parts, options: SendOptions, nodeId: string, entries: readonly Entry[]): Promise<void> {
  try {
    const broker = await parts.cluster.findBroker({ nodeId })
    const answers = await produce(parts.eosManager, broker, options, entries)
    for (const entry of entries) apply(parts.eosManager, entry, answers.get(nameOf(entry.topic, entry.partition)))
  } catch (error) {
    for (const entry of entries) entry.error = error
    const { name, host, port } = error as ClientError & { host: string; port: number }
    if (name === 'KafkaJSConnectionClosedError') parts.cluster.removeBroker({ host, port })
  } finally {
    for (const entry of entries) entry.isRepeat = true
  }
}

/** Keeps what a broker answered of a partition; its sequence advances only when the records are written. */
function apply(eosManager: EosManager, entry: Entry, answer: PartitionAnswer | undefined): void {
  if (answer === undefined) throw new Error(`the broker answered nothing of ${entry.topic}-${entry.partition}`)
  const isRecognized = entry.isRepeat && answer.errorCode === DUPLICATE_SEQUENCE_NUMBER
  if (answer.errorCode !== 0 && !isRecognized) {
    entry.error = createErrorFromCode(answer.errorCode)
    return
  }
  entry.answer = answer
  entry.error = undefined
  const { topic, partition, firstSequence, messages } = entry
  const next = (firstSequence + messages.length) % SEQUENCES
  eosManager.updateSequence(topic, partition, next - firstSequence)
}

/** The answers by partition; the client throws the first error among them, and with it the others. */
async function produce(
  eosManager: EosManager,
  broker: Broker,
  options: SendOptions,
  entries: readonly Entry[],
): Promise<Map<string, PartitionAnswer>> {
  const { acks, timeout, compression } = options
  const answer = await withExchanges(broker, withErrors).produce({
    acks,
    timeout,
    compression,
    transactionalId: eosManager.isTransactional() ? eosManager.getTransactionalId() : undefined,
    producerId: eosManager.getProducerId(),
    producerEpoch: eosManager.getProducerEpoch(),
    topicData: topicDataOf(entries),
  })
  if (acks === 0 || answer === undefined)
    return new Map(
      entries.map(({ topic, partition }) => [nameOf(topic, partition), { partition, errorCode: 0 }] as const),
    )
  return new Map(
    answer.topics.flatMap(({ topicName, partitions }) =>
      partitions.map(one => [nameOf(topicName, one.partition), one] as const),
    ),
  )
}

function topicDataOf(entries: readonly Entry[]): TopicData[] {
  const byTopic = Map.groupBy(entries, ({ topic }) => topic)
  return [...byTopic].map(([topic, own]) => ({
    topic,
    partitions: own.map(({ partition, messages, firstSequence }) => ({ partition, messages, firstSequence })),
  }))
}

const nameOf = (topic: string, partition: number): string => `${topic}/${partition}`
