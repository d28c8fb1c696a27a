/**
 * Runs a stateful processor exactly once: records, changelog, position and offsets of a batch are one Kafka transaction.
 *
 * One slot per input partition, with a producer whose transactional id is the partition's. Opening a
 * slot: lock (fences a former owner and ends its transaction), then restore state and position from
 * the compacted changelog, then read the input again from `from` to `next` to rebuild what was under
 * way, writing nothing. A changelog that this version may not read leaves the slot closed, to be tried again. Per batch: fold, one transaction, resolve. Any failure drops the slot with
 * its producer and resolves nothing, so the same batch comes again to the next slot. The group's
 * offsets serve lag alone. The only caller of commit for processors.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Decoded } from '#infra/kafka/codec.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { type BatchAnswer, joinGroup, type MessageBatch, type Tick } from '#infra/kafka/group-consumer.ts'
import type { Outgoing } from '#infra/kafka/publisher.ts'
import { openRangeReader, type RangeReader } from '#infra/kafka/range-reader.ts'
import { openTransactionalProducer, type TransactionalProducer } from '#infra/kafka/transactional-producer.ts'
import type { RoleContext, RunningRole } from '#infra/runtime/role.ts'
import {
  BOOK_CHANGELOG,
  type BookPositionStored,
  bookPositionStored,
  changelogFault,
} from '#schemas/events/book-state.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { batchLoop } from './batch-loop.ts'
import { type DeadLetters, openDeadLetters } from './dead-letters.ts'
import { decodeNow, decodeSlowly, expectedIn, isDecoded } from './decoding.ts'
import type { Outcome, StreamRecord } from './outcome.ts'
import { watchProgress } from './progress-watch.ts'
import { openSlots, whileTicking } from './slots.ts'
import { openUnknownEvents, type UnknownEvents } from './unknown-events.ts'

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
interface ProcessorSpec {
  group: string
  inputs: readonly TopicKey[]
  changelog: TopicKey
  /** The changelog partition that belongs to an input partition, and to no other. */
  changelogPartition(topic: TopicKey, partition: number): number
  maxBytesPerPartition?: number
  open(topic: TopicKey, partition: number): PartitionProcessor
}

/** The changelog key under which the runner keeps its own position. */
const POSITION_KEY = 'position'
/** What a position says of the changelog that it ends. */
const CHANGELOG_MARK = { format: BOOK_CHANGELOG.format, oldest_reader: BOOK_CHANGELOG.oldestReader }

interface Slot {
  processor: PartitionProcessor
  producer: TransactionalProducer
  next: number
  sought: number | undefined
  close(): Promise<void>
}

interface Runner {
  kafka: KafkaConnection
  spec: ProcessorSpec
  reader: RangeReader
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
  const read = [...spec.inputs, spec.changelog].map(topic => topics[topic])
  await kafka.codec.prepare([...new Set([...written, ...read].flatMap(topic => [...topic.events]))])
  const runner: Runner = {
    kafka,
    spec,
    reader: await openRangeReader(kafka, [...spec.inputs, spec.changelog].map(kafka.topicName)),
    deadLetters: openDeadLetters({ group: spec.group, codec: kafka.codec, metrics: context.metrics, log }),
    unknown: openUnknownEvents({
      ...{ group: spec.group, metrics: context.metrics, log },
      ...{ givenUp: context.config.givenUpEvents, now: () => performance.now() },
    }),
  }
  const slots = openSlots<Slot>(async (topic, partition) => {
    const startedAt = performance.now()
    const slot = await openSlot(runner, topic, partition)
    log.info({ topic, partition, next: slot.next, ms: Math.round(performance.now() - startedAt) }, 'partition restored')
    return slot
  }, log)
  const watch = await watchProgress({
    kafka,
    group: spec.group,
    topics: spec.inputs,
    metrics: context.metrics,
    log,
    fail: context.fail,
    isOpen: (topic, partition) => slots.peek(topic, partition) !== undefined,
  })
  const member = await joinGroup(
    kafka,
    { group: spec.group, topics: spec.inputs, maxBytesPerPartition: spec.maxBytesPerPartition, fail: context.fail },
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
    ready: async () => member.trouble() ?? slots.state() ?? runner.unknown.overdue(),
    async stop() {
      await watch.close()
      await member.leave()
      await slots.close()
      await runner.reader.close()
    },
  }
}

async function openSlot(runner: Runner, topic: TopicKey, partition: number): Promise<Slot> {
  const { kafka, spec } = runner
  const producer = await openTransactionalProducer(kafka, {
    transactionalId: `${spec.group}-${topics[topic].name}-${partition}`,
    writers: [spec.group, 'runner'],
  })
  const noTick = (): Promise<void> => Promise.resolve()
  try {
    await producer.lock(noTick)
    const processor = spec.open(topic, partition)
    const changelog = spec.changelogPartition(topic, partition)
    const to = await producer.fixEnd(spec.changelog, changelog)
    const { next, from } = await restore(runner, processor, changelog, to)
    await rebuild(runner, processor, { topic, partition, from, to: next })
    return { processor, producer, next, sought: undefined, close: () => producer.close() }
  } catch (error) {
    await producer.close()
    throw error
  }
}

/** Reads the changelog up to the end that its only writer has fixed. */
async function restore(
  runner: Runner,
  processor: PartitionProcessor,
  partition: number,
  to: number,
): Promise<BookPositionStored> {
  const { kafka, spec, reader } = runner
  const topic = kafka.topicName(spec.changelog)
  let position: BookPositionStored = { next: 0, from: 0, format: null, oldest_reader: null }
  const passedOver = new Map<string, number>()
  const keep = (key: string, decoded: Decoded | Outcome): void => {
    if (isDecoded(decoded)) {
      if (key === POSITION_KEY) position = decoded.value
      else processor.restore(key, decoded.event, decoded.value)
    } else if (decoded.kind === 'unknown') passedOver.set(decoded.event, (passedOver.get(decoded.event) ?? 0) + 1)
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
  const fault = changelogFault(position)
  if (fault !== undefined) throw new Error(fault)
  if (passedOver.size > 0)
    kafka.log.warn(
      { partition, events: Object.fromEntries(passedOver) },
      'passed over what a newer version keeps in the changelog',
    )
  return position
}

/** Takes the records of the work under way again; what they emit, and their dead letters, were written before. */
async function rebuild(
  runner: Runner,
  processor: PartitionProcessor,
  range: { topic: TopicKey; partition: number; from: number; to: number },
): Promise<void> {
  const { topic, partition } = range
  const { kafka, reader } = runner
  await reader.read({ ...range, topic: kafka.topicName(topic) }, ({ offset, key, value, timestamp }) => {
    if (value === null) return
    const take = (decoded: Decoded | Outcome): void => {
      if (!isDecoded(decoded)) {
        const refusal = decoded.kind === 'unknown' ? runner.unknown.refusalOf(decoded.event) : undefined
        if (refusal !== undefined) throw new Error(refusal)
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
  if (batch.next <= slot.next) return 'done'
  const { records, next, retryAfterMs } = await fold(runner, slot, batch)
  const from = slot.processor.openFrom() ?? next
  records.push({
    topic: spec.changelog,
    partition: spec.changelogPartition(topic, partition),
    key: POSITION_KEY,
    value: kafka.codec.encode(bookPositionStored, { next, from, ...CHANGELOG_MARK }),
  })
  await whileTicking(slot.producer.commit(records, { group: spec.group, topic, partition, next }), tick)
  slot.next = next
  if (retryAfterMs === undefined) return 'done'
  await whileTicking(delay(retryAfterMs), tick)
  return 'again'
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
    const deadLetter = deadLetters.recordOf({ topic, partition, ...message }, outcome)
    if (deadLetter) records.push(deadLetter)
  }
  return { records, next: batch.next, retryAfterMs: undefined }
}
