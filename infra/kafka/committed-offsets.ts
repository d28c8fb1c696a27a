/**
 * Where a consumer group stands on a topic, for members whose state has to begin at exactly that place.
 *
 * Reads the group's coordinator only. Invariant: partitions for which the group never committed are missing in
 * the answer, never 0.
 */
import type { TopicKey } from '#schemas/topics.ts'
import type { KafkaConnection } from './connection.ts'

/** Next offset of each partition that the group has committed. */
export async function committedOffsets(
  kafka: KafkaConnection,
  group: string,
  topic: TopicKey,
): Promise<Map<number, number>> {
  const name = kafka.topicName(topic)
  const admin = kafka.newClient(`offsets-${group}`).admin()
  await admin.connect()
  try {
    const fetched = await admin.fetchOffsets({ groupId: kafka.groupName(group), topics: [name] })
    const partitions = fetched.find(each => each.topic === name)?.partitions ?? []
    return new Map(
      partitions.flatMap(({ partition, offset }) => (Number(offset) < 0 ? [] : [[partition, Number(offset)]])),
    )
  } finally {
    await admin.disconnect()
  }
}
