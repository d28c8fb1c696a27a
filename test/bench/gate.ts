/**
 * Holds a topic back from its readers, so that a backlog can build up and be let go at a known moment: a transaction that is open on every
 * partition keeps later records from everyone who reads read_committed, while their writers go on. It is aborted, so its records are never
 * seen.
 */
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import type { Turn } from './entry.ts'

const LONGEST_MS = 600_000

export type Gate = Awaited<ReturnType<typeof openGate>>

/** Opens the gate of a topic; nothing is held back yet. */
export async function openGate(kafka: KafkaConnection, topic: TopicKey) {
  const name = kafka.topicName(topic)
  const producer = kafka.newClient(`gate-${topic}`).producer({
    idempotent: true,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: false,
    transactionalId: `${kafka.namespace}gate-${topic}`,
    transactionTimeout: LONGEST_MS,
  })
  await producer.connect()
  let held: Awaited<ReturnType<typeof producer.transaction>> | undefined
  const release = async (): Promise<void> => {
    await held?.abort()
    held = undefined
  }
  return {
    async hold(): Promise<void> {
      held = await producer.transaction()
      const value = Buffer.from('held back')
      const messages = Array.from({ length: topics[topic].partitions }, (_, partition) => ({ partition, value }))
      await held.send({ topic: name, acks: -1, messages })
    },
    /** Resolves when the log holds the end of the transaction. */
    release,
    async close(): Promise<void> {
      await release()
      await producer.disconnect()
    },
  }
}

/**
 * Two turns of two rounds. Ours works the first round off when the gate opens, theirs while the gate holds the second back, ours works the
 * second one off, and theirs follows: each comes first after a round was made as often as it follows.
 */
export async function pairOfTurns<R>(
  makeRound: () => Promise<R>,
  ours: (round: R) => Promise<number>,
  theirs: (round: R) => Promise<number>,
): Promise<Turn[]> {
  const first = await makeRound()
  const ourFirst = await ours(first)
  const second = await makeRound()
  const theirFirst = await theirs(first)
  const ourSecond = await ours(second)
  const theirSecond = await theirs(second)
  return [
    { value: ourFirst, against: theirFirst },
    { value: ourSecond, against: theirSecond },
  ]
}
