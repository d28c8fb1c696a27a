/**
 * Holds a topic back from its readers, so that a backlog can build up and be let go at a known moment.
 *
 * A transaction that is open on every partition keeps later records from everyone who reads
 * read_committed, while their writers go on; its end lets all go at once. The transaction is aborted, so
 * its records are never seen. A gate that is never opened opens by itself when its transaction
 * times out.
 */
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'

/** A topic that can be held back. */
export interface Gate {
  hold(): Promise<void>
  /** Resolves when the log holds the end of the transaction. */
  release(): Promise<void>
  close(): Promise<void>
}

const LONGEST_MS = 600_000

/** Opens the gate of a topic; nothing is held back yet. */
export async function openGate(kafka: KafkaConnection, topic: TopicKey): Promise<Gate> {
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
    async hold() {
      held = await producer.transaction()
      const value = Buffer.from('held back')
      const messages = Array.from({ length: topics[topic].partitions }, (_, partition) => ({ partition, value }))
      await held.send({ topic: name, acks: -1, messages })
    },
    release,
    async close() {
      await release()
      await producer.disconnect()
    },
  }
}
