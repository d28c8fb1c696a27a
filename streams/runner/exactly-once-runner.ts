/**
 * Runs a stateful processor exactly once: records, changelog, position and offsets of a batch are one Kafka transaction.
 *
 * One slot per input partition, with a producer whose transactional id is the partition's. Opening a
 * slot: lock (fences a former owner and ends its transaction), then restore state and position from
 * the compacted changelog, then read the input again from `from` to `next` to rebuild what was under
 * way, writing nothing. Where the position is not of the log that is there (positions.ts), the slot stays closed and is tried again, so
 * that it opens after `reset`. Per batch: fold, one transaction, resolve. Any failure drops the slot with
 * its producer and resolves nothing, so the same batch comes again to the next slot. The group's
 * offsets serve lag alone. The only caller of commit for processors.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import {
  type BatchAnswer,
  joinGroup,
  type MessageBatch,
  type ResumeAt,
  type Tick,
} from '#infra/kafka/group-consumer.ts'
import type { Outgoing } from '#infra/kafka/publisher.ts'
import { openRangeReader, type RangeReader } from '#infra/kafka/range-reader.ts'
import { openTransactionalProducer, type TransactionalProducer } from '#infra/kafka/transactional-producer.ts'
import type { RoleContext, RunningRole, TopicIds } from '#infra/runtime/role.ts'
import { POSITION_KEY, type PositionStored } from '#schemas/events/position-stored.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { batchLoop } from './batch-loop.ts'
import { judgeInput, positionRecord, resetCommand, transactionalIdOf } from './changelog-positions.ts'
import { type DeadLetters, openDeadLetters } from './dead-letters.ts'
import { type DecodeResult, decodeNow, decodeSlowly, expectedIn, isDecoded } from './decoding.ts'
import type { Outcome, StreamRecord } from './outcome.ts'
import { type Position, type Source, Stopped } from './positions.ts'
import type { ProcessorTopics } from './processor-topics.ts'
import { watchProgress } from './progress-watch.ts'
import { openSlots, reportStopped, whileTicking } from './slots.ts'
import { adviceOn, openUnknownEvents, type UnknownEvents } from './unknown-events.ts'

/** One input partition of a processor. */
export interface PartitionProcessor {
  /** Takes a changelog record at start; null removes the key. */
  restore(key: string, event: string | null, value: unknown): void
  /** Takes an input record again whose effects are written; rebuilds what is under way and nothing else. */
  rebuild(record: StreamRecord): void
  /** Takes an input record; what it emits goes into the batch's transaction. */
  step(record: StreamRecord, emit: (record: Outgoing & { partition: number }) => void): Outcome
  /** The first input offset that state alone does not cover; undefined when all is covered. */
  openFrom(): number | undefined
}

/** What makes a processor. */
interface ProcessorSpec extends ProcessorTopics {
  open(topic: TopicKey, partition: number): PartitionProcessor
}

interface Slot {
  processor: PartitionProcessor
  producer: TransactionalProducer
  topicId: string
  next: number
  sought: number | undefined
  close(): Promise<void>
}

interface Runner {
  kafka: KafkaConnection
  spec: ProcessorSpec
  reader: RangeReader
  ids: TopicIds
  deadLetters: DeadLetters
  unknown: UnknownEvents
}

/** Joins the group and processes until stopped. */
export async function runProcessor(
  context: RoleContext,
  kafka: KafkaConnection,
  spec: ProcessorSpec,
): Promise<RunningRole> {
  const log = context.log.child({ group: spec.group })
  const written = Object.values(topics).filter(topic => topic.writer === spec.group || topic.writer === 'runner')
  const ownTopics = [...spec.inputs, spec.changelog]
  const read = ownTopics.map(topic => topics[topic])
  await kafka.codec.prepare([...new Set([...written, ...read].flatMap(topic => [...topic.events]))])
  const runner: Runner = {
    kafka,
    spec,
    reader: await openRangeReader(kafka, [...ownTopics, spec.output].map(kafka.topicName)),
    ids: await context.topicIds(),
    deadLetters: openDeadLetters({ group: spec.group, codec: kafka.codec, metrics: context.metrics, log }),
    unknown: openUnknownEvents({ group: spec.group, metrics: context.metrics, log }),
  }
  const open = async (topic: TopicKey, partition: number, resumeAt: ResumeAt): Promise<Slot> => {
    const startedAt = performance.now()
    const slot = await openSlot(runner, topic, partition, resumeAt)
    log.info({ topic, partition, next: slot.next, ms: Math.round(performance.now() - startedAt) }, 'partition restored')
    return slot
  }
  const slots = openSlots<Slot>(open, log, reportStopped(context, spec.group))
  const endWatch = runner.ids.onChange(ownTopics, () => slots.reopen())
  const watch = watchProgress({
    ...{ kafka, group: spec.group, topics: spec.inputs, reader: runner.reader, log },
    ...{ metrics: context.metrics, fail: context.fail },
    isOpen: (topic, partition) => slots.peek(topic, partition) !== undefined,
  })
  const member = await joinGroup(
    kafka,
    { group: spec.group, topics: spec.inputs, fail: context.fail },
    batchLoop({
      group: spec.group,
      log,
      metrics: context.metrics,
      slots,
      watch,
      unknown: runner.unknown,
      process: (slot, batch, tick) => process(runner, slot, batch, tick),
    }),
  )
  return {
    name: spec.group,
    ready: async () => member.trouble() ?? slots.state() ?? runner.unknown.report(),
    async stop() {
      endWatch()
      await watch.close()
      await member.leave()
      await slots.close()
      await runner.reader.close()
    },
  }
}

async function openSlot(runner: Runner, topic: TopicKey, partition: number, resumeAt: ResumeAt): Promise<Slot> {
  const { kafka, spec } = runner
  const producer = await openTransactionalProducer(kafka, {
    transactionalId: transactionalIdOf(spec.group, topic, partition),
    writers: [spec.group, 'runner'],
  })
  const noTick = (): Promise<void> => Promise.resolve()
  try {
    await producer.lock(noTick)
    const processor = spec.open(topic, partition)
    const changelog = spec.changelogPartition(topic, partition)
    const to = await producer.fixEnd(spec.changelog, changelog)
    const stored = await restore(runner, processor, changelog, to)
    const source = { topic, partition }
    const { topicId, next } = await positionOf(runner, source, stored, resumeAt)
    await rebuild(runner, processor, { ...source, from: stored?.from ?? next, to: next })
    if (stored === undefined) await producer.commit([positionRecord(kafka, spec, source, { topicId, next })])
    await resumeAt(topic, partition, next)
    return { processor, producer, topicId, next, sought: undefined, close: () => producer.close() }
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
async function restore(
  runner: Runner,
  processor: PartitionProcessor,
  partition: number,
  to: number,
): Promise<PositionStored | undefined> {
  const { kafka, spec, reader } = runner
  const topic = kafka.topicName(spec.changelog)
  let position: PositionStored | undefined
  const keep = (key: string, decoded: DecodeResult): void => {
    if (isDecoded(decoded)) {
      if (key === POSITION_KEY) position = decoded.value
      else processor.restore(key, decoded.event, decoded.value)
    } else if (decoded.kind === 'unknown')
      throw new Error(
        `${topics[spec.changelog].name} holds ${decoded.event}, of a newer version: start that version again`,
      )
    else throw new Error(`changelog record ${key} cannot be read`)
  }
  await reader.read({ topic, partition, from: 0, to }, record => {
    const key = record.key?.toString() ?? ''
    const { value } = record
    if (value === null) return processor.restore(key, null, null)
    const decoded = decodeNow(kafka.codec, value)
    if (decoded === undefined) return decodeSlowly(kafka.codec, value).then(late => keep(key, late))
    keep(key, decoded)
  })
  return position
}

/** Takes the records of the work under way again; what they emit, and their dead letters, were written before. */
async function rebuild(
  runner: Runner,
  processor: PartitionProcessor,
  range: Source & { from: number; to: number },
): Promise<void> {
  const { topic, partition } = range
  const { kafka, reader } = runner
  await reader.read({ ...range, topic: kafka.topicName(topic) }, ({ offset, key, value, timestamp }) => {
    if (value === null) return
    const take = (decoded: DecodeResult): void => {
      if (!isDecoded(decoded)) {
        if (decoded.kind === 'unknown') throw new Error(adviceOn([decoded.event]))
        return
      }
      const { event, value: decodedValue } = decoded
      const source = { topic, partition, offset, key: key?.toString() ?? null, appendedAt: timestamp }
      processor.rebuild({ ...source, event, value: decodedValue, raw: value })
    }
    const decoded = decodeNow(kafka.codec, value)
    if (decoded === undefined) return decodeSlowly(kafka.codec, value).then(take)
    take(decoded)
  })
}

async function process(runner: Runner, slot: Slot, batch: MessageBatch, tick: Tick): Promise<BatchAnswer> {
  const { topic, partition } = batch
  const { kafka, spec } = runner
  if (batch.first > slot.next && slot.sought !== slot.next) {
    slot.sought = slot.next
    return slot.next
  }
  // A repeat, or what is missing was aborted; else it is another log, or records have expired.
  if (batch.first !== slot.next) await whileTicking(checkPosition(runner, slot, batch), tick)
  if (batch.next <= slot.next) return slot.next
  const { records, next, retryAfterMs } = await fold(runner, slot, batch)
  const from = slot.processor.openFrom() ?? next
  records.push(positionRecord(kafka, spec, batch, { topicId: slot.topicId, next, from }))
  await whileTicking(slot.producer.commit(records, { group: spec.group, topic, partition, next }), tick)
  slot.next = next
  if (retryAfterMs === undefined) return 'done'
  await whileTicking(delay(retryAfterMs), tick)
  return 'again'
}

async function checkPosition(runner: Runner, slot: Slot, { topic, partition }: MessageBatch): Promise<void> {
  await positionOf(runner, { topic, partition }, { topic_id: slot.topicId, next: slot.next, from: slot.next })
}

async function fold(
  runner: Runner,
  slot: Slot,
  batch: MessageBatch,
): Promise<{ records: (Outgoing & { partition: number })[]; next: number; retryAfterMs: number | undefined }> {
  const { topic, partition } = batch
  const { kafka, deadLetters, unknown } = runner
  const records: (Outgoing & { partition: number })[] = []
  const emit = (record: Outgoing & { partition: number }): void => void records.push(record)
  for (const message of batch.messages) {
    if (message.offset < slot.next) continue
    const read = decodeNow(kafka.codec, message.value) ?? (await decodeSlowly(kafka.codec, message.value))
    const decoded = expectedIn(topic, read)
    const outcome = isDecoded(decoded)
      ? slot.processor.step(
          {
            topic,
            partition,
            offset: message.offset,
            key: message.key === null ? null : message.key.toString(),
            event: decoded.event,
            value: decoded.value,
            raw: message.value ?? Buffer.alloc(0),
            appendedAt: message.timestamp,
          },
          emit,
        )
      : unknown.judge({ topic, partition, offset: message.offset }, decoded)
    if (outcome.kind === 'ok') continue
    if (outcome.kind === 'retry') return { records, next: message.offset, retryAfterMs: outcome.afterMs }
    const deadLetter = deadLetters.recordOf({ topic: topics[topic].name, partition, ...message }, outcome)
    if (deadLetter) records.push(deadLetter)
  }
  return { records, next: batch.next, retryAfterMs: undefined }
}
