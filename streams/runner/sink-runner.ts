/**
 * Runs a sink: topic in, view out, each partition resuming from the view's own position.
 *
 * Per batch: decode, apply, write dead letters, flush (the view and its position in one atomic write), then
 * commit to Kafka, in this order, so a kill at any point repeats records that the view already
 * reflects and never skips one. The commit serves lag and is the next owner's first position; the view's position decides: a
 * partition that is opened is read from there on, and that offset is committed too, whether or not a record follows. A flush
 * that fails drops the partition's state and reads it again; failures beyond the retry limit end the process. The only caller
 * of commit for sinks.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Codec } from '#infra/kafka/codec.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { type Commit, joinGroup, type MessageBatch, type Tick } from '#infra/kafka/group-consumer.ts'
import { type Outgoing, openPublisher, type Publisher } from '#infra/kafka/publisher.ts'
import type { RoleContext, RunningRole } from '#infra/runtime/role.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { batchLoop, type ProcessBatch } from './batch-loop.ts'
import { type DeadLetters, openDeadLetters } from './dead-letters.ts'
import { decodeNow, decodeSlowly, expectedIn, isDecoded } from './decoding.ts'
import type { Outcome, StreamRecord } from './outcome.ts'
import { watchProgress } from './progress-watch.ts'
import { openSlots, whileTicking } from './slots.ts'
import { type WatchedSlot, watchStores } from './store-watch.ts'
import { openUnknownEvents, type UnknownEvents } from './unknown-events.ts'

/** One partition of a view. */
export interface PartitionSink {
  /** The next offset that the view lacks; undefined leaves it to the group's committed offset. */
  readonly position: number | undefined
  /** Called once before the records of a batch are applied, for what must be known before them. */
  prepare?(): Promise<void>
  /** Takes one record into memory; writes nothing. */
  apply(record: StreamRecord): Outcome
  /** Writes what was applied together with `next`; resolves when the store has confirmed it. */
  flush(next: number): Promise<void>
  /**
   * Whether the store still holds what was last read or written here; called while no batch is under way. Left out where a
   * store keeps no position. Rejects when the store does not answer.
   */
  readonly isCurrent?: () => Promise<boolean>
  close(): Promise<void>
}

/** What makes a sink. */
interface SinkSpec {
  group: string
  topics: readonly TopicKey[]
  /** Bytes of one fetch for one partition; 1 MiB when left out. */
  maxBytesPerPartition?: number
  /** How long nothing may be committed while records wait; a minute when left out. */
  stalledAfterMs?: number
  /** How long an event of a newer version is waited for before the operator has to decide; ten minutes when left out. */
  overdueAfterMs?: number
  open(topic: TopicKey, partition: number): Promise<PartitionSink>
}

interface Slot extends WatchedSlot {
  sink: PartitionSink
  /** The next offset to apply; undefined until the first batch where the view has no position. */
  next: number | undefined
  /** The offset that was sought because the group's was past the view's. */
  sought: number | undefined
}

/** Joins the group and keeps the view up to date until stopped. */
export async function runSink(context: RoleContext, kafka: KafkaConnection, spec: SinkSpec): Promise<RunningRole> {
  const { group } = spec
  const { metrics } = context
  await kafka.codec.prepare(spec.topics.flatMap(topic => [...topics[topic].events]))
  const publisher = await openPublisher(kafka, 'runner')
  const log = context.log.child({ group })
  const deadLetters = openDeadLetters({ group, codec: kafka.codec, metrics, log })
  const slots = openSlots<Slot>(async (topic, partition, resumeAt) => {
    const sink = await spec.open(topic, partition)
    const { position, isCurrent } = sink
    if (position !== undefined) {
      await resumeAt(topic, partition, position).catch(error => sink.close().then(() => Promise.reject(error)))
      watch.moved(topic, partition, position)
    }
    return { sink, next: position, sought: undefined, batchSequence: 0, isCurrent, close: () => sink.close() }
  }, log)
  const watch = await watchProgress({
    kafka,
    group,
    topics: spec.topics,
    metrics,
    log,
    fail: context.fail,
    isOpen: (topic, partition) => slots.peek(topic, partition) !== undefined,
    ...(spec.stalledAfterMs && { stalledAfterMs: spec.stalledAfterMs }),
  })
  const stores = watchStores(slots, log)
  const unknown = openUnknownEvents({
    ...{ group, metrics, log, givenUp: context.config.givenUpEvents, now: () => performance.now() },
    ...(spec.overdueAfterMs && { overdueAfterMs: spec.overdueAfterMs }),
  })
  const write = writeBatches({ codec: kafka.codec, deadLetters, publisher, unknown })
  const member = await joinGroup(
    kafka,
    { group, topics: spec.topics, maxBytesPerPartition: spec.maxBytesPerPartition, fail: context.fail },
    batchLoop({ group, log, metrics, slots, process: write, watch, unknown }),
  )
  return {
    name: group,
    ready: async () => slots.state() ?? unknown.overdue(),
    async stop() {
      await watch.close()
      await stores.close()
      await member.leave()
      await slots.close()
      await publisher.close()
    },
  }
}

/** What batches are applied with. */
interface BatchParts {
  codec: Codec
  deadLetters: DeadLetters
  unknown: UnknownEvents
}

/** Writes batches into the view. */
function writeBatches(parts: BatchParts & { publisher: Publisher }): ProcessBatch<Slot> {
  const { publisher } = parts
  const write: ProcessBatch<Slot> = async (slot, batch, tick, commit) => {
    const elsewhere = await offsetElsewhere(slot, batch, commit)
    if (elsewhere !== undefined) return elsewhere
    if (slot.sink.prepare) await whileTicking(slot.sink.prepare(), tick)
    const { records, next, retryAfterMs } = await applyAll(slot, batch, parts, tick)
    if (records.length > 0) await publisher.send(records)
    await whileTicking(slot.sink.flush(next), tick)
    slot.next = next
    await commit(batch.topic, batch.partition, next)
    if (retryAfterMs === undefined) return 'done'
    await whileTicking(delay(retryAfterMs), tick)
    return 'again'
  }
  return async (slot, ...batch) => {
    slot.batchSequence += 1
    try {
      return await write(slot, ...batch)
    } finally {
      slot.batchSequence += 1
    }
  }
}

/** Where to read instead, when the batch does not begin where the view ends. */
async function offsetElsewhere(slot: Slot, batch: MessageBatch, commit: Commit): Promise<number | undefined> {
  if (slot.next === undefined) return undefined
  if (batch.first > slot.next && slot.sought !== slot.next) {
    slot.sought = slot.next
    return slot.next
  }
  if (batch.next > slot.next) return undefined
  // The committed offset is behind the view: after a rebuild, or when its owner died between write and commit.
  await commit(batch.topic, batch.partition, slot.next)
  return slot.next
}

/** Folding is synchronous: heartbeats must be sent in between. */
const RECORDS_PER_TICK = 5_000

/** Applies a batch's records in order, up to its end or to one that must wait. */
async function applyAll(
  slot: Slot,
  batch: MessageBatch,
  { codec, deadLetters, unknown }: BatchParts,
  tick: Tick,
): Promise<{ records: Outgoing[]; next: number; retryAfterMs: number | undefined }> {
  const { topic, partition } = batch
  const records: Outgoing[] = []
  for (const [index, message] of batch.messages.entries()) {
    if (index % RECORDS_PER_TICK === RECORDS_PER_TICK - 1) await tick()
    if (slot.next !== undefined && message.offset < slot.next) continue
    const read = decodeNow(codec, message.value) ?? (await decodeSlowly(codec, message.value))
    const decoded = expectedIn(topic, read)
    const outcome = isDecoded(decoded)
      ? slot.sink.apply({
          topic,
          partition,
          offset: message.offset,
          key: message.key === null ? null : message.key.toString(),
          event: decoded.event,
          value: decoded.value,
          raw: message.value ?? Buffer.alloc(0),
          appendedAt: message.timestamp,
        })
      : unknown.judge({ topic, partition, offset: message.offset }, decoded)
    if (outcome.kind === 'ok') continue
    if (outcome.kind === 'retry') return { records, next: message.offset, retryAfterMs: outcome.afterMs }
    const record = deadLetters.recordOf({ topic, partition, ...message }, outcome)
    if (record) records.push(record)
  }
  return { records, next: batch.next, retryAfterMs: undefined }
}
