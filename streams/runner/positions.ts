/**
 * Where a view, or the book, goes on in a partition of the log: one decision for all of them.
 *
 * A position knows the id of its topic. Invariant: nothing is read on from a position of another topic, beyond the log's end, or
 * before its start: what is there is not what follows the position.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { RangeReader } from '#infra/kafka/range-reader.ts'
import { Refused } from '#infra/runtime/refused.ts'
import type { TopicIds } from '#infra/runtime/role.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'

/** The next offset that a view lacks of a partition, stored with what it describes. */
export interface Position {
  topicId: string
  next: number
}

/** A partition of the log as it is now. */
export interface PartitionLog {
  topicId: string
  /** The first offset that it still holds. */
  start: number
  /** The offset after its last record, open transactions included. */
  end: number
}

/** Go on, build from the beginning, or stop and say why. */
export type Decision = { kind: 'resume'; next: number } | { kind: 'build' } | { kind: 'stop'; fault: string }

/** What to do with a stored position, given the log as it is now. */
export function decide(stored: Position | undefined, log: PartitionLog): Decision {
  if (stored === undefined) return { kind: 'build' }
  const stop = (fault: string): Decision => ({ kind: 'stop', fault })
  if (stored.topicId !== log.topicId)
    return stop(
      `the position is of the topic with id ${stored.topicId}, which was deleted; its id is ${log.topicId} now`,
    )
  if (stored.next > log.end) return stop(`the position is ${stored.next}, and the log ends at ${log.end}`)
  if (stored.next < log.start)
    return stop(`${log.start - stored.next} records from ${stored.next} to ${log.start} have expired unread`)
  return { kind: 'resume', next: stored.next }
}

/** A partition that cannot be read on from its position; waiting does not help, a command does. */
export class Stopped extends Refused {
  constructor(group: string, source: { topic: TopicKey; partition: number }, fault: string, command: string) {
    const partition = `${topics[source.topic].name}-${source.partition}`
    super(`${group} does not go on reading ${partition}: ${fault}. To go on with what is there now: \`${command}\``)
  }
}

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
  { topic, partition }: { topic: TopicKey; partition: number },
  stored: Position | undefined,
  settledWithinMs = SETTLED_WITHIN_MS,
): Promise<PartitionLog> {
  const name = kafka.topicName(topic)
  const limit = performance.now() + settledWithinMs
  for (;;) {
    const topicId = await ids.idOf(topic)
    if (topicId === undefined) throw new Error(`there is no topic ${topics[topic].name}`)
    const log = { topicId, start: await reader.start(name, partition), end: await reader.end(name, partition) }
    if (decide(stored, log).kind !== 'stop' || performance.now() > limit) return log
    await delay(PAUSE_MS)
  }
}
