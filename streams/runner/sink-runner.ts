/**
 * Runs a sink: topic in, view out, each partition resuming from the view's own position.
 *
 * Per batch: decode, apply, write dead letters, flush (the view and its position), then commit to Kafka, in this order, so a kill
 * at any point repeats records that the view already reflects and never skips one. The view's position decides (positions.ts): a
 * partition that is opened is read from there on. The commit serves lag, and shows a view that was set back to an earlier time: what the
 * group has committed, the view had reflected. A flush that fails drops the partition's state and reads it again; failures beyond
 * the retry limit end the process. The only caller of commit for sinks.
 * States of a partition: none -> behind (readers are refused until the log's end of the opening is reached) -> whole; stopped (the
 * position is not of the log that is there: readers are refused, and it is tried again, so that it opens after `rebuild`).
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Codec } from '#infra/kafka/codec.ts'
import { committedOffsets } from '#infra/kafka/committed-offsets.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { joinGroup, type MessageBatch, type ResumeAt, type Tick } from '#infra/kafka/group-consumer.ts'
import { nextRecordAt } from '#infra/kafka/lag.ts'
import { type Outgoing, openPublisher, type Publisher } from '#infra/kafka/publisher.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { RoleContext, RunningRole } from '#infra/runtime/role.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { batchLoop, type ProcessBatch } from './batch-loop.ts'
import { type DeadLetters, openDeadLetters } from './dead-letters.ts'
import { decodeNow, decodeSlowly, expectedIn, isDecoded } from './decoding.ts'
import type { Outcome, ViewRecord } from './outcome.ts'
import { type LogParts, readPartitionLog } from './partition-log.ts'
import {
  advanced,
  decide,
  isSamePosition,
  mergeVersion,
  type Position,
  positionFrom,
  rebuildCommand,
  type Source,
  Stopped,
  type ViewPosition,
} from './positions.ts'
import { watchProgress } from './progress-watch.ts'
import { openSlots, reportStopped, whileTicking } from './slots.ts'
import { type WatchedSlot, watchStores } from './store-watch.ts'
import { openUnknownEvents, type UnknownEvents } from './unknown-events.ts'

/** One partition of a view. */
export interface PartitionSink {
  /** What the view reflects; undefined: nothing. */
  readonly position: ViewPosition | undefined
  /** Called once before the records of a batch are applied, for what must be known before them. */
  prepare?(): Promise<void>
  /** Takes one record into memory; writes nothing. */
  apply(record: ViewRecord): Outcome
  /** Writes what was applied together with the position that it leads to; resolves when the store has confirmed both. */
  flush(position: ViewPosition): Promise<void>
  /**
   * Whether the store still holds what was last read or written here; called while no batch is under way. Left out where a
   * store keeps no position. Rejects when the store does not answer.
   */
  readonly isCurrent?: () => Promise<boolean>
  close(): Promise<void>
}

/** One partition of a view whose position is kept for it. */
export interface RowSink extends Pick<PartitionSink, 'prepare' | 'apply' | 'close'> {
  /** Writes what was applied; resolves when the store has confirmed it. */
  flush(): Promise<void>
}

/** What makes a sink. */
interface SinkSpec {
  group: string
  topics: readonly TopicKey[]
  /** Bytes of one fetch for one partition; 1 MiB when left out. */
  maxBytesPerPartition?: number
  /** How long nothing may be committed while records wait; a minute when left out. */
  stalledAfterMs?: number
  open(source: Source, opening: Opening): Promise<PartitionSink>
}

/** What opens the view of a partition may ask and say. */
interface Opening {
  /** Why the view cannot go on from a position: one that begins again by itself asks. */
  faultOf(stored: Position | undefined): Promise<string | undefined>
  /** What it waits for goes on: that is no stall, however long it takes. */
  progressed(): void
}

interface Slot extends WatchedSlot {
  sink: PartitionSink
  position: ViewPosition
  /** The offset that was sought because the group's was past the view's. */
  sought: number | undefined
  /** Settles when no flush is under way that belongs to no batch. */
  flushing: Promise<void>
}

/** What the partitions of a member share. */
interface Member extends LogParts {
  group: string
  codec: Codec
  deadLetters: DeadLetters
  unknown: UnknownEvents
  publisher: Publisher
  log: Log
}

/** Joins the group and keeps the view up to date until stopped. */
export async function runSink(context: RoleContext, kafka: KafkaConnection, spec: SinkSpec): Promise<RunningRole> {
  const { group } = spec
  const { metrics } = context
  await kafka.codec.prepare(spec.topics.flatMap(topic => [...topics[topic].events]))
  const log = context.log.child({ group })
  const member: Member = {
    ...{ group, kafka, codec: kafka.codec, log, ids: await context.topicIds() },
    reader: await openRangeReader(kafka, spec.topics.map(kafka.topicName)),
    publisher: await openPublisher(kafka, 'runner'),
    deadLetters: openDeadLetters({ group, codec: kafka.codec, metrics, log }),
    unknown: openUnknownEvents({ group, metrics, log }),
  }
  const open = async (topic: TopicKey, partition: number, resumeAt: ResumeAt): Promise<Slot> => {
    const source = { topic, partition }
    const sink = await spec.open(source, {
      faultOf: stored => faultOf(member, source, stored),
      progressed: () => watch.waited(topic, partition),
    })
    try {
      const position = await openPosition(member, sink, source, resumeAt)
      watch.moved(topic, partition, position.next)
      const { isCurrent } = sink
      const flushing = Promise.resolve()
      return { sink, position, sought: undefined, batchSequence: 0, isCurrent, flushing, close: () => sink.close() }
    } catch (error) {
      await sink.close()
      throw error
    }
  }
  const slots = openSlots<Slot>(open, log, reportStopped(context, group))
  const endIds = member.ids.onChange(spec.topics, () => slots.reopen())
  const watch = watchProgress({
    ...{ kafka, group, topics: spec.topics, reader: member.reader, metrics, log, fail: context.fail },
    isOpen: (topic, partition) => slots.peek(topic, partition) !== undefined,
    ...(spec.stalledAfterMs && { stalledAfterMs: spec.stalledAfterMs }),
  })
  const stores = watchStores(slots, log)
  const { unknown } = member
  const joined = await joinGroup(
    kafka,
    { group, topics: spec.topics, maxBytesPerPartition: spec.maxBytesPerPartition, fail: context.fail },
    batchLoop({ group, log, metrics, slots, process: writeBatches(member), passed, watch, unknown }),
  )
  return {
    name: group,
    ready: async () => slots.state() ?? unknown.report(),
    async stop() {
      endIds()
      await watch.close()
      await stores.close()
      await joined.leave()
      await slots.close()
      await member.publisher.close()
      await member.reader.close()
    },
  }
}

async function faultOf(member: Member, source: Source, stored: Position | undefined): Promise<string | undefined> {
  const decision = decide(stored, await readPartitionLog(member, source, stored))
  return decision.kind === 'stop' ? decision.fault : undefined
}

/** Decides where a partition goes on, and stores what its readers may expect; throws {@link Stopped} where it does not. */
async function openPosition(
  member: Member,
  sink: PartitionSink,
  source: Source,
  resumeAt: ResumeAt,
): Promise<ViewPosition> {
  const { group, kafka, reader } = member
  const { topic, partition } = source
  const { position: stored } = sink
  const name = kafka.topicName(topic)
  const log = await readPartitionLog(member, source, stored)
  const decision = decide(stored, log)
  if (decision.kind === 'stop') {
    const stopped = new Stopped(group, source, decision.fault, rebuildCommand(group, decision))
    if (stored !== undefined && stored.fault !== decision.fault) await sink.flush({ ...stored, fault: decision.fault })
    await resumeAt(topic, partition, log.start, stopped.message)
    throw stopped
  }
  let position: ViewPosition
  if (decision.kind === 'build' || stored === undefined) {
    const from = { topicId: log.topicId, next: log.start }
    position = positionFrom(from, await reader.stableEnd(name, partition))
    if (log.start > 0)
      member.log.warn(
        { topic, partition, records: log.start },
        'it is built without records that the log no longer holds',
      )
  } else {
    const { fault, ...rest } = stored
    position = rest
    if (await lacksCommitted(member, source, position))
      position = positionFrom(rest, await reader.stableEnd(name, partition))
  }
  if (!isSamePosition(position, stored)) await sink.flush(position)
  await resumeAt(topic, partition, position.next)
  return position
}

/** Whether the group has committed records that the view lacks: it reflected them once. */
async function lacksCommitted(
  { group, kafka, reader }: Member,
  { topic, partition }: Source,
  { next }: ViewPosition,
): Promise<boolean> {
  const committed = (await committedOffsets(kafka, group, topic)).get(partition)
  if (committed === undefined || committed <= next) return false
  return (
    (await nextRecordAt(reader, { topic: kafka.topicName(topic), partition, position: next, end: committed })) <
    committed
  )
}

/** Writes batches into the view. */
function writeBatches(member: Member): ProcessBatch<Slot> {
  const write: ProcessBatch<Slot> = async (slot, batch, tick, commit) => {
    const { next: from } = slot.position
    if (batch.first > from && slot.sought !== from) {
      slot.sought = from
      return from
    }
    // A repeat, or what is missing was aborted; else it is another log, or records have expired.
    if (batch.first !== from) await whileTicking(checkPosition(member, slot, batch), tick)
    if (batch.next <= from) return from
    await slot.flushing
    if (slot.sink.prepare) await whileTicking(slot.sink.prepare(), tick)
    const { records, next, retryAfterMs } = await applyAll(slot, batch, member, tick)
    if (records.length > 0) await member.publisher.send(records)
    const position = advanced(slot.position, next)
    await whileTicking(slot.sink.flush(position), tick)
    slot.position = position
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

async function checkPosition({ group, ...parts }: Member, slot: Slot, source: MessageBatch): Promise<void> {
  const decision = decide(slot.position, await readPartitionLog(parts, source, slot.position))
  if (decision.kind === 'stop') throw new Stopped(group, source, decision.fault, rebuildCommand(group, decision))
}

/** A view that its readers wait for has reached its end where only control records were left. */
async function passed(slot: Slot, next: number): Promise<void> {
  if (slot.position.until === undefined || next <= slot.position.next) return
  const position = advanced(slot.position, next)
  slot.flushing = slot.sink.flush(position)
  await slot.flushing
  slot.position = position
}

/** Folding is synchronous: heartbeats must be sent in between. */
const RECORDS_PER_TICK = 5_000

/** Applies a batch's records in order, up to its end or to one that must wait. */
async function applyAll(
  slot: Slot,
  batch: MessageBatch,
  { codec, deadLetters, unknown }: Member,
  tick: Tick,
): Promise<{ records: Outgoing[]; next: number; retryAfterMs: number | undefined }> {
  const { topic, partition } = batch
  const records: Outgoing[] = []
  for (const [index, message] of batch.messages.entries()) {
    if (index % RECORDS_PER_TICK === RECORDS_PER_TICK - 1) await tick()
    if (message.offset < slot.position.next) continue
    const read = decodeNow(codec, message.value) ?? (await decodeSlowly(codec, message.value))
    const decoded = expectedIn(topic, read)
    const outcome = isDecoded(decoded)
      ? slot.sink.apply({
          topic,
          partition,
          offset: message.offset,
          version: mergeVersion(slot.position, message.offset),
          key: message.key === null ? null : message.key.toString(),
          event: decoded.event,
          value: decoded.value,
          raw: message.value ?? Buffer.alloc(0),
          appendedAt: message.timestamp,
        })
      : unknown.judge({ topic, partition, offset: message.offset }, decoded)
    if (outcome.kind === 'ok') continue
    if (outcome.kind === 'retry') return { records, next: message.offset, retryAfterMs: outcome.afterMs }
    const record = deadLetters.recordOf({ topic: topics[topic].name, partition, ...message }, outcome)
    if (record) records.push(record)
  }
  return { records, next: batch.next, retryAfterMs: undefined }
}
