/** The positions of a processor as its changelog holds them, read and, by an operator's decision, set. */
import { decodeLearning } from '#infra/kafka/learning.ts'
import { openTransactionalProducer } from '#infra/kafka/transactional-producer.ts'
import { POSITION_KEY, type PositionStored, positionStored } from '#schemas/events/position-stored.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { decide, type LogParts, type PartitionLog, readPartitionLog } from './positions.ts'
import type { ProcessorTopics } from './processor-topics.ts'

/** An input partition that its processor does not go on reading. */
export interface StoppedInput {
  topic: TopicKey
  partition: number
  stored: PositionStored | undefined
  log: PartitionLog
  fault: string
}

/** The id by which the owner of an input partition fences the one before it. */
export const transactionalIdOf = (group: string, topic: TopicKey, partition: number): string =>
  `${group}-${topics[topic].name}-${partition}`

/** What has a processor go on with the log that is there. */
export const resetCommand = (group: string): string => `marketlog reset ${group}`

/** A transaction ends with its position and a marker, and aborted ones may follow. */
const LAST_RECORDS = 500
const WIDER = 20

/** The position that a changelog partition holds; undefined: none. */
async function readPosition(
  { kafka, reader }: LogParts,
  changelog: TopicKey,
  partition: number,
): Promise<PositionStored | undefined> {
  const topic = kafka.topicName(changelog)
  const start = await reader.start(topic, partition)
  const to = await reader.stableEnd(topic, partition)
  for (let count = LAST_RECORDS; ; count *= WIDER) {
    const from = Math.max(start, to - count)
    let last: Buffer | undefined
    await reader.read({ topic, partition, from, to }, ({ key, value }) => {
      if (key?.toString() === POSITION_KEY) last = value ?? undefined
    })
    if (last !== undefined) return (await decodeLearning(kafka.codec, last)).value
    if (from === start) return undefined
  }
}

/** Why a changelog without a position is one that was lost; undefined: nothing was derived, so it is new. */
export async function lossOf(
  { kafka, reader }: LogParts,
  { changelog, output }: ProcessorTopics,
): Promise<string | undefined> {
  for (let partition = 0; partition < topics[output].partitions; partition++) {
    if ((await reader.end(kafka.topicName(output), partition)) > 0)
      return `${topics[changelog].name} holds no position, though ${topics[output].name} holds what was derived`
  }
  return undefined
}

/** The input partitions that a processor does not go on reading. */
export async function stoppedInputs(parts: LogParts, processor: ProcessorTopics): Promise<StoppedInput[]> {
  const sources = processor.inputs.flatMap(topic =>
    Array.from({ length: topics[topic].partitions }, (_, partition) => ({ topic, partition })),
  )
  const found = await Promise.all(sources.map(source => stoppedInput(parts, processor, source)))
  return found.filter(one => one !== undefined)
}

async function stoppedInput(
  parts: LogParts,
  processor: ProcessorTopics,
  source: { topic: TopicKey; partition: number },
  settledWithinMs?: number,
): Promise<StoppedInput | undefined> {
  const { topic, partition } = source
  const stored = await readPosition(parts, processor.changelog, processor.changelogPartition(topic, partition))
  const position = stored && { topicId: stored.topic_id, next: stored.next }
  const log = await readPartitionLog(parts, source, position, settledWithinMs)
  const decision = decide(position, log)
  if (decision.kind === 'resume') return undefined
  const fault = decision.kind === 'stop' ? decision.fault : await lossOf(parts, processor)
  return fault === undefined ? undefined : { ...source, stored, log, fault }
}

/**
 * Has a processor go on at the start of what its inputs hold now, where it has stopped; its rows stay. An owner that runs is fenced
 * first, and opens the partition again.
 */
export async function resetPositions(parts: LogParts, processor: ProcessorTopics): Promise<StoppedInput[]> {
  const { kafka } = parts
  const { group, changelog } = processor
  await kafka.codec.prepare([positionStored])
  const reset: StoppedInput[] = []
  for (const { topic, partition } of await stoppedInputs(parts, processor)) {
    const producer = await openTransactionalProducer(kafka, {
      transactionalId: transactionalIdOf(group, topic, partition),
      writers: [group],
    })
    try {
      await producer.lock(() => Promise.resolve())
      const one = await stoppedInput(parts, processor, { topic, partition }, 0)
      if (one === undefined) continue
      const { topicId, start } = one.log
      const value = kafka.codec.encode(positionStored, { topic_id: topicId, next: start, from: start })
      const record = { topic: changelog, partition: processor.changelogPartition(topic, partition), key: POSITION_KEY }
      await producer.commit([{ ...record, value }])
      reset.push(one)
    } finally {
      await producer.close()
    }
  }
  return reset
}
