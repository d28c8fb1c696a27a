/**
 * The committed offsets of a consumer group on a topic.
 *
 * Reads the group's coordinator only. A broker that has just taken a group over refuses it for a moment, which the admin of
 * kafkajs does not retry; here the request is repeated. Invariant: partitions for which the group never committed
 * are missing in the answer, never 0.
 */
import type { Admin } from 'kafkajs'
import pRetry from 'p-retry'
import type { TopicKey } from '#schemas/topics.ts'
import type { KafkaConnection } from './connection.ts'
import { withAdmin } from './with-admin.ts'

/** Some 20 seconds of retries. */
const ASKED_AGAIN = { retries: 12, minTimeout: 100, factor: 1.6, maxTimeout: 3_000 }

/** What a group has committed of a partition. */
export interface CommittedOffset {
  next: number
  /** Why the group does not read the partition; empty while it does. */
  note: string
}

/** The committed offset of each partition that has one. */
export async function committedOffsets(
  kafka: KafkaConnection,
  group: string,
  topic: TopicKey,
): Promise<Map<number, number>> {
  const offsets = await withAdmin(kafka, admin => groupOffsets(admin, kafka.groupName(group), kafka.topicName(topic)), {
    name: `offsets-${group}`,
  })
  return new Map([...offsets].map(([partition, { next }]) => [partition, next]))
}

/** The same by the broker's names, through a connected admin; rejects at once with an error that a retry cannot cure. */
export async function groupOffsets(
  admin: Pick<Admin, 'fetchOffsets'>,
  groupId: string,
  topic: string,
): Promise<Map<number, CommittedOffset>> {
  const fetched = await pRetry(() => admin.fetchOffsets({ groupId, topics: [topic] }), {
    ...ASKED_AGAIN,
    shouldRetry: ({ error }) => 'retriable' in error && error.retriable === true,
  })
  const partitions = fetched.find(each => each.topic === topic)?.partitions ?? []
  return new Map(
    partitions.flatMap(({ partition, offset, metadata }) =>
      Number(offset) < 0 ? [] : [[partition, { next: Number(offset), note: metadata ?? '' }]],
    ),
  )
}
