/**
 * Where a consumer group stands on a topic.
 *
 * Reads the group's coordinator only. A broker that has just taken a group over refuses it for a moment, which the admin of
 * kafkajs hands on to its caller; here the question is asked again. Invariant: partitions for which the group never committed
 * are missing in the answer, never 0.
 */
import type { Admin } from 'kafkajs'
import pRetry from 'p-retry'
import type { TopicKey } from '#schemas/topics.ts'
import type { KafkaConnection } from './connection.ts'

/** Some 20 seconds of asking. */
const ASKED_AGAIN = { retries: 12, minTimeout: 100, factor: 1.6, maxTimeout: 3_000 }

/** Next offset of each partition that the group has committed; for members whose state has to begin at exactly that place. */
export async function committedOffsets(
  kafka: KafkaConnection,
  group: string,
  topic: TopicKey,
): Promise<Map<number, number>> {
  const admin = kafka.newClient(`offsets-${group}`).admin()
  await admin.connect()
  try {
    return await groupOffsets(admin, kafka.groupName(group), kafka.topicName(topic))
  } finally {
    await admin.disconnect()
  }
}

/** The same by the broker's names, asked of an admin that is connected; rejects at once with what will not pass. */
export async function groupOffsets(
  admin: Pick<Admin, 'fetchOffsets'>,
  groupId: string,
  topic: string,
): Promise<Map<number, number>> {
  const fetched = await pRetry(() => admin.fetchOffsets({ groupId, topics: [topic] }), {
    ...ASKED_AGAIN,
    shouldRetry: ({ error }) => 'retriable' in error && error.retriable === true,
  })
  const partitions = fetched.find(each => each.topic === topic)?.partitions ?? []
  return new Map(
    partitions.flatMap(({ partition, offset }) => (Number(offset) < 0 ? [] : [[partition, Number(offset)]])),
  )
}
