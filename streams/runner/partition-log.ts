/** Reads what a partition of the log is now, for the decision about a position. */
import { setTimeout as delay } from 'node:timers/promises'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { RangeReader } from '#infra/kafka/range-reader.ts'
import type { TopicIds } from '#infra/runtime/role.ts'
import { decide, type PartitionLog, type Position, type Source } from './positions.ts'

const SETTLED_WITHIN_MS = 10_000
const PAUSE_MS = 500

/** What a partition's log is read with. */
export interface LogParts {
  kafka: KafkaConnection
  reader: RangeReader
  ids: TopicIds
}

/**
 * Reads what a partition's log is now. A broker that has just become its leader, or learns of a topic late, may show an earlier state: a
 * position that fits no more is compared again until it is settled. Rejects while there is no such topic.
 */
export async function readPartitionLog(
  { kafka, reader, ids }: LogParts,
  { topic, partition }: Source,
  stored: Position | undefined,
  settledWithinMs = SETTLED_WITHIN_MS,
): Promise<PartitionLog> {
  const name = kafka.topicName(topic)
  const limit = performance.now() + settledWithinMs
  for (;;) {
    const topicId = await ids.idOf(topic)
    const log = { topicId, start: await reader.start(name, partition), end: await reader.end(name, partition) }
    if (decide(stored, log).kind !== 'stop' || performance.now() > limit) return log
    await delay(PAUSE_MS)
  }
}
