/**
 * Runs a sink: topic in, view out, each partition resuming from the view's own position.
 *
 * Per batch: decode, apply, write dead letters, flush (the view and its position), then commit to Kafka, in this order, so a kill
 * at any point repeats records that the view already reflects and never skips one. The view's position decides (positions.ts): a
 * partition that is opened is read from there on. The commit serves lag, and shows a view that was set back to an earlier time: what the
 * group has committed, the view had reflected.
 * States of a partition: none -> behind (readers are refused until the log's end of the opening is reached) -> whole; stopped (the
 * position is not of the log that is there: readers are refused, and it is tried again, so that it opens after `rebuild`).
 */
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { ResumeAt } from '#infra/kafka/group-consumer.ts'
import { committedOffsets, nextRecordAt } from '#infra/kafka/lag.ts'
import { openPublisher, type Publisher } from '#infra/kafka/publisher.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { RoleContext, RunningRole } from '#infra/runtime/role.ts'
import { topics } from '#schemas/topics.ts'
import { type GroupSpec, type OpenPartition, runGroup } from './group-loop.ts'
import type { Outcome, StreamRecord } from './outcome.ts'
import {
  advanced,
  decide,
  isSamePosition,
  type LogParts,
  type Position,
  positionFrom,
  readPartitionLog,
  rebuildCommand,
  type Source,
  Stopped,
  type ViewPosition,
} from './positions.ts'

export interface PartitionSink {
  /** Up to which the view reflects the log; undefined: nothing. */
  readonly position: ViewPosition | undefined
  /** Called once before the records of a batch are applied, for what must be known before them. */
  prepare?(): Promise<void>
  /** Takes one record into memory; writes nothing. */
  apply(record: StreamRecord): Outcome
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
export interface RowSink extends Pick<PartitionSink, 'apply'> {
  /** Writes what was applied; resolves when the store has confirmed it. */
  flush(): Promise<void>
}

interface SinkSpec extends Pick<GroupSpec, 'group' | 'topics' | 'maxBytesPerPartition' | 'stalledAfterMs'> {
  open(
    source: Source,
    opening: {
      /** Why the view cannot go on from a position: one that begins again by itself asks. */
      faultOf(stored: Position | undefined): Promise<string | undefined>
      /** Reports that the work it waits for goes on: that is no stall, however long it takes. */
      progressed(): void
    },
  ): Promise<PartitionSink>
}

interface Member extends LogParts {
  group: string
  publisher: Publisher
  log: Log
}

export async function runSink(context: RoleContext, kafka: KafkaConnection, spec: SinkSpec): Promise<RunningRole> {
  const { group } = spec
  await kafka.codec.prepare(spec.topics.flatMap(topic => [...topics[topic].events]))
  const member: Member = {
    group,
    kafka,
    log: context.log.child({ group }),
    ids: await context.topicIds(),
    reader: await openRangeReader(kafka, spec.topics.map(kafka.topicName)),
    publisher: await openPublisher(kafka, 'runner'),
  }
  const running = await runGroup(context, kafka, {
    ...spec,
    reader: member.reader,
    async open(source, resumeAt, progressed) {
      const sink = await spec.open(source, { faultOf: stored => faultOf(member, source, stored), progressed })
      try {
        return partitionOf(member, source, sink, await openPosition(member, sink, source, resumeAt))
      } catch (error) {
        await sink.close()
        throw error
      }
    },
  })
  return {
    ...running,
    async stop() {
      await running.stop()
      await member.publisher.close()
    },
  }
}

/** Writes batches into the view: dead letters, then the view and its position, then the group's offset. */
function partitionOf(member: Member, source: Source, sink: PartitionSink, opened: ViewPosition): OpenPartition {
  const { group, publisher, ...parts } = member
  let position = opened
  /** Settles when no flush is under way that belongs to no batch. */
  let flushing: Promise<void> = Promise.resolve()
  return {
    position: () => position,
    isCurrent: sink.isCurrent,
    async check() {
      const decision = decide(position, await readPartitionLog(parts, source, position))
      if (decision.kind === 'stop') throw new Stopped(group, source, decision.fault, rebuildCommand(group, decision))
    },
    async prepare() {
      await flushing
      await sink.prepare?.()
    },
    fold: record => sink.apply(record),
    async write(records, next, commit) {
      if (records.length > 0) await publisher.send([...records])
      const reached = advanced(position, next)
      await sink.flush(reached)
      position = reached
      await commit(source.topic, source.partition, next)
    },
    async passed(next) {
      // Readers wait for an end before which only control records are left.
      if (position.until === undefined || next <= position.next) return
      const reached = advanced(position, next)
      flushing = sink.flush(reached)
      await flushing
      position = reached
    },
    close: () => sink.close(),
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
