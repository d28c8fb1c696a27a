/**
 * Runs a stateful processor exactly once: records, changelog, position and offsets of a batch are one Kafka transaction.
 *
 * Each input partition has a producer whose transactional id is the partition's. Opening one: lock (fences a former owner and ends its
 * transaction), then load state and position from the compacted changelog, then read the input again from `from` to `next`, writing
 * nothing, so that the refresh under way is as it was. Where the position is not of the log that is there (positions.ts), the partition
 * stays closed and is tried again, so that it opens after `reset`. Any failure drops it with its producer. The group's offsets serve lag
 * alone.
 */
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { ResumeAt } from '#infra/kafka/group-consumer.ts'
import { type OffsetRange, openRangeReader } from '#infra/kafka/range-reader.ts'
import { openTransactionalProducer } from '#infra/kafka/transactional-producer.ts'
import type { RoleContext, RunningRole } from '#infra/runtime/role.ts'
import { POSITION_KEY, type PositionStored } from '#schemas/events/position-stored.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import {
  judgeInput,
  type ProcessorTopics,
  positionRecord,
  resetCommand,
  transactionalIdOf,
} from './changelog-positions.ts'
import { decodeRecord, foldRecord, isDecoded } from './decoding.ts'
import { type OpenPartition, type PlacedRecord, runGroup } from './group-loop.ts'
import { OK, type Outcome, type StreamRecord } from './outcome.ts'
import { type LogParts, type Position, type Source, Stopped } from './positions.ts'
import { adviceOn } from './unknown-events.ts'

export interface PartitionProcessor {
  /** Takes a changelog record at start; null removes the key. */
  loadChangelog(key: string, value: unknown): void
  /** Takes an input record again whose effects are written; what is under way comes to be again, and nothing else. */
  replayOpenRefresh(record: StreamRecord): void
  /** Takes an input record; what it emits goes into the batch's transaction. */
  step(record: StreamRecord, emit: (record: PlacedRecord) => void): Outcome
  /** The first input offset that state alone does not cover; undefined when all is covered. */
  openFrom(): number | undefined
}

interface ProcessorSpec extends ProcessorTopics {
  open(topic: TopicKey, partition: number): PartitionProcessor
}

interface Runner extends LogParts {
  spec: ProcessorSpec
}

export async function runProcessor(
  context: RoleContext,
  kafka: KafkaConnection,
  spec: ProcessorSpec,
): Promise<RunningRole> {
  const { group, inputs } = spec
  const written = Object.values(topics).filter(topic => topic.writer === group || topic.writer === 'runner')
  const watched = [...inputs, spec.changelog]
  await kafka.codec.prepare([
    ...new Set([...written, ...watched.map(key => topics[key])].flatMap(({ events }) => [...events])),
  ])
  const reader = await openRangeReader(kafka, [...watched, spec.output].map(kafka.topicName))
  const runner: Runner = { kafka, spec, reader, ids: await context.topicIds() }
  return runGroup(context, kafka, {
    group,
    topics: inputs,
    watched,
    reader,
    open: (source, resumeAt) => openPartition(runner, source, resumeAt),
  })
}

async function openPartition(runner: Runner, source: Source, resumeAt: ResumeAt): Promise<OpenPartition> {
  const { kafka, spec } = runner
  const { topic, partition } = source
  const producer = await openTransactionalProducer(kafka, {
    transactionalId: transactionalIdOf(spec.group, topic, partition),
    writers: [spec.group, 'runner'],
  })
  try {
    await producer.lock()
    const processor = spec.open(topic, partition)
    const changelog = spec.changelogPartition(topic, partition)
    const to = await producer.fencedEndOffset(spec.changelog, changelog)
    const stored = await loadChangelog(runner, processor, changelog, to)
    let position = await positionOf(runner, source, stored, resumeAt)
    await replayOpenRefresh(runner, processor, source, { from: stored?.from ?? position.next, to: position.next })
    if (stored === undefined) await producer.commit([positionRecord(kafka, spec, source, position)])
    await resumeAt(topic, partition, position.next)
    return {
      position: () => position,
      async check() {
        const { topicId: topic_id, next } = position
        await positionOf(runner, source, { topic_id, next, from: next })
      },
      fold: (record, emit) => processor.step(record, emit),
      async write(records, next) {
        const reached = { ...position, next, from: processor.openFrom() ?? next }
        const group = { group: spec.group, topic, partition, next }
        await producer.commit([...records, positionRecord(kafka, spec, source, reached)], group)
        position = { ...position, next }
      },
      close: () => producer.close(),
    }
  } catch (error) {
    await producer.close()
    throw error
  }
}

/** Where an input partition is read on; throws {@link Stopped} where it must not be. */
async function positionOf(
  runner: Runner,
  source: Source,
  stored: PositionStored | undefined,
  resumeAt?: ResumeAt,
): Promise<Position> {
  const { spec } = runner
  const { log, next, fault } = await judgeInput(runner, spec, source, stored)
  if (fault === undefined) return { topicId: log.topicId, next }
  const stopped = new Stopped(spec.group, source, fault, resetCommand(spec.group))
  await resumeAt?.(source.topic, source.partition, log.start, stopped.message)
  throw stopped
}

/** Reads the changelog up to the end that its only writer has fixed. */
async function loadChangelog(
  runner: Runner,
  processor: PartitionProcessor,
  partition: number,
  to: number,
): Promise<PositionStored | undefined> {
  const { kafka, spec, reader } = runner
  const topic = kafka.topicName(spec.changelog)
  let position: PositionStored | undefined
  const load = (key: string, value: Buffer | null): void => {
    if (value === null) {
      processor.loadChangelog(key, null)
      return
    }
    const decoded = decodeRecord(kafka.codec, spec.changelog, value)
    if (isDecoded(decoded)) {
      if (key === POSITION_KEY) position = decoded.value
      else processor.loadChangelog(key, decoded.value)
    } else if (decoded.kind === 'unknown')
      throw new Error(
        `${topics[spec.changelog].name} holds ${decoded.event}, of a newer version: start that version again`,
      )
    else throw new Error(`changelog record ${key} cannot be read`)
  }
  for await (const page of reader.range(topic, new Map([[partition, { from: 0, to }]])))
    for (const { key, value } of page) load(key?.toString() ?? '', value)
  return position
}

/** Takes the records of the work under way again; what they emit, and their dead letters, were written before. */
async function replayOpenRefresh(
  { kafka, reader }: Runner,
  processor: PartitionProcessor,
  source: Source,
  range: OffsetRange,
): Promise<void> {
  const fold = (record: StreamRecord): Outcome => {
    processor.replayOpenRefresh(record)
    return OK
  }
  for await (const page of reader.range(kafka.topicName(source.topic), new Map([[source.partition, range]]))) {
    for (const record of page) {
      const outcome = foldRecord(kafka.codec, source, record, record.offset, fold)
      if (outcome.kind === 'unknown') throw new Error(adviceOn([outcome.event]))
    }
  }
}
