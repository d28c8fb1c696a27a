/** The positions of a processor as its changelog holds them, read and, by an operator's decision, set. */

import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { committedOffsets } from '#infra/kafka/lag.ts'
import type { Outgoing } from '#infra/kafka/publisher.ts'
import { isFenced, openTransactionalProducer } from '#infra/kafka/transactional-producer.ts'
import { POSITION_KEY, type PositionStored, positionStored } from '#schemas/events/position-stored.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import {
  decide,
  type LogParts,
  type PartitionLog,
  type Position,
  readPartitionLog,
  type Source,
  sourcesOf,
} from './positions.ts'

export interface ProcessorTopics {
  group: string
  inputs: readonly TopicKey[]
  changelog: TopicKey
  /** The changelog partition that belongs to an input partition, and to no other. */
  changelogPartition(topic: TopicKey, partition: number): number
  /** Its derived records: while this holds records, a changelog without a position is one that was lost. */
  output: TopicKey
}

/** An input partition that its processor does not go on reading. */
export interface StoppedInput extends Source {
  stored: PositionStored | undefined
  log: PartitionLog
  fault: string
}

/** The id by which the owner of an input partition fences the one before it. */
export const transactionalIdOf = (group: string, topic: TopicKey, partition: number): string =>
  `${group}-${topics[topic].name}-${partition}`

/** Has a processor go on with the log that is there. */
export const resetCommand = (group: string): string => `marketlog reset ${group}`

const RESET_TRIES = 20

/** The position that a changelog partition holds; undefined: none. */
async function readPosition(
  { kafka, reader }: LogParts,
  changelog: TopicKey,
  partition: number,
): Promise<PositionStored | undefined> {
  const topic = kafka.topicName(changelog)
  const to = await reader.stableEnd(topic, partition)
  let last: Buffer | undefined
  for await (const page of reader.range(topic, new Map([[partition, { from: 0, to }]])))
    for (const { key, value } of page) if (key?.toString() === POSITION_KEY) last = value ?? undefined
  return last && kafka.codec.decode(last).value
}

/**
 * Why an input partition without a position is one whose position was lost; undefined: it was never read. A position is stored before
 * the group commits anything, so a committed offset tells.
 */
async function lossOf(
  { kafka, reader }: LogParts,
  { group, changelog, output }: ProcessorTopics,
  { topic, partition }: Source,
): Promise<string | undefined> {
  const lost = `${topics[changelog].name} holds no position`
  const committed = (await committedOffsets(kafka, group, topic)).get(partition)
  if (committed !== undefined) return `${lost}, though ${group} has committed ${committed}`
  const isEmpty = async (key: TopicKey): Promise<boolean> => {
    const sources = sourcesOf({ topics: [key] })
    const ends = await Promise.all(sources.map(each => reader.end(kafka.topicName(key), each.partition)))
    return ends.every(end => end === 0)
  }
  const isLost = (await isEmpty(changelog)) && !(await isEmpty(output))
  return isLost ? `${lost}, though ${topics[output].name} holds what was derived` : undefined
}

/** Where an input partition is read on, and why it must not be, if so. */
export async function judgeInput(
  parts: LogParts,
  processor: ProcessorTopics,
  source: Source,
  stored: PositionStored | undefined,
  settledWithinMs?: number,
): Promise<{ log: PartitionLog; next: number; fault: string | undefined }> {
  const position = stored && { topicId: stored.topic_id, next: stored.next }
  const log = await readPartitionLog(parts, source, position, settledWithinMs)
  const decision = decide(position, log)
  if (decision.kind === 'resume') return { log, next: decision.next, fault: undefined }
  const fault = decision.kind === 'stop' ? decision.fault : await lossOf(parts, processor, source)
  return { log, next: log.start, fault }
}

/** The record that stores a position; the work under way begins at `from`. */
export function positionRecord(
  { codec }: KafkaConnection,
  { changelog, changelogPartition }: ProcessorTopics,
  { topic, partition }: Source,
  { topicId, next, from = next }: Position & { from?: number },
): Outgoing & { partition: number } {
  const value = codec.encode(positionStored, { topic_id: topicId, next, from })
  return { topic: changelog, partition: changelogPartition(topic, partition), key: POSITION_KEY, value }
}

async function stoppedInput(
  parts: LogParts,
  processor: ProcessorTopics,
  source: Source,
  settledWithinMs?: number,
): Promise<StoppedInput | undefined> {
  const { topic, partition } = source
  const stored = await readPosition(parts, processor.changelog, processor.changelogPartition(topic, partition))
  const { log, fault } = await judgeInput(parts, processor, source, stored, settledWithinMs)
  return fault === undefined ? undefined : { ...source, stored, log, fault }
}

/**
 * Has a processor go on at the start of what its inputs hold now, where it has stopped; its rows stay. An owner that runs is fenced
 * first, and opens the partition again.
 */
export async function resetPositions(parts: LogParts, processor: ProcessorTopics): Promise<StoppedInput[]> {
  await parts.kafka.codec.prepare([positionStored])
  const sources = sourcesOf({ topics: processor.inputs })
  const stopped = await Promise.all(sources.map(source => stoppedInput(parts, processor, source)))
  const reset: StoppedInput[] = []
  for (const source of stopped.filter(one => one !== undefined)) {
    const one = await resetInput(parts, processor, source)
    if (one !== undefined) reset.push(one)
  }
  return reset
}

/** Resolves with what was found under the lock; undefined where there was nothing to reset any more. */
async function resetInput(
  parts: LogParts,
  processor: ProcessorTopics,
  { topic, partition }: Source,
): Promise<StoppedInput | undefined> {
  const { kafka } = parts
  const { group } = processor
  for (let tries = 1; ; tries++) {
    const producer = await openTransactionalProducer(kafka, {
      transactionalId: transactionalIdOf(group, topic, partition),
      writers: [group],
    })
    try {
      await producer.lock()
      const one = await stoppedInput(parts, processor, { topic, partition }, 0)
      if (one === undefined) return undefined
      const { topicId, start: next } = one.log
      const record = positionRecord(kafka, processor, one, { topicId, next })
      await producer.commit([record], { group, topic, partition, next })
      return one
    } catch (error) {
      // An owner that tries to open the partition meanwhile, as it does every two seconds, takes the lock.
      if (!isFenced(error) || tries === RESET_TRIES) throw error
    } finally {
      await producer.close()
    }
  }
}
