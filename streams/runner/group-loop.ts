/**
 * The loop of a consumer group over its topics: each batch is decoded, folded and written, and only then does the next one come.
 *
 * How a partition is opened, and how what was folded is written, is the runner's own: a view with its position (sink-runner.ts), or one
 * Kafka transaction (exactly-once-runner.ts). The position that is stored decides, never the group's: a partition is read from there
 * on. A failure drops what is open of a partition, and its batch comes again; failures beyond the retry limit end the process.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Codec } from '#infra/kafka/codec.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import {
  type BatchAnswer,
  type Commit,
  joinGroup,
  type MessageBatch,
  type ResumeAt,
  type Tick,
} from '#infra/kafka/group-consumer.ts'
import type { Outgoing } from '#infra/kafka/publisher.ts'
import type { LogRecord, RangeReader } from '#infra/kafka/range-reader.ts'
import type { RoleContext, RunningRole } from '#infra/runtime/role.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { batchLoop } from './batch-loop.ts'
import { type DeadLetters, openDeadLetters } from './dead-letters.ts'
import { decodeRecord, isDecoded } from './decoding.ts'
import type { Outcome, StreamRecord, UnknownOutcome } from './outcome.ts'
import { mergeVersion, type Source, type ViewPosition } from './positions.ts'
import { watchProgress } from './progress-watch.ts'
import { openSlots, reportStopped, whileTicking } from './slots.ts'
import { type WatchedSlot, watchStores } from './store-watch.ts'
import { openUnknownEvents, type UnknownEvents } from './unknown-events.ts'

/** A record that goes to a partition of its own choice. */
export type PlacedRecord = Outgoing & { partition: number }

/** An open partition. */
export interface OpenPartition {
  /** Where it goes on now. */
  position(): ViewPosition
  /** Throws {@link Stopped} where the log that is there is not one to go on with. */
  check(): Promise<void>
  /** Called once before the records of a batch are folded. */
  prepare?(): Promise<void>
  /** Takes a record into memory; what it emits is written with the batch. */
  fold(record: StreamRecord, emit: (record: PlacedRecord) => void): Outcome
  /** Writes what was folded, the records, and that the partition goes on at `next`. */
  write(records: readonly PlacedRecord[], next: number, commit: Commit): Promise<void>
  /** Only control or aborted records are left before `next`. */
  passed?(next: number): Promise<void>
  /** Whether the store holds what was last read or written here; left out where it keeps nothing. */
  readonly isCurrent?: (() => Promise<boolean>) | undefined
  close(): Promise<void>
}

/** What makes the loop of a group. */
interface GroupSpec {
  group: string
  topics: readonly TopicKey[]
  /** Of the topics, and of what else the runner reads; closed with the loop. */
  reader: RangeReader
  /** Whose partitions are all opened again when one of them is created again; those that are read when left out. */
  watched?: readonly TopicKey[]
  /** Bytes of one fetch for one partition; 1 MiB when left out. */
  maxBytesPerPartition?: number | undefined
  /** How long nothing may be committed while records wait; a minute when left out. */
  stalledAfterMs?: number | undefined
  /** Opens a partition and resumes it; what it waits for goes on where it calls `progressed`. */
  open(source: Source, resumeAt: ResumeAt, progressed: () => void): Promise<OpenPartition>
}

interface Slot extends WatchedSlot {
  partition: OpenPartition
  /** The offset that was sought because the group's was past the stored one. */
  sought: number | undefined
}

/** Joins the group and goes on until stopped. */
export async function runGroup(context: RoleContext, kafka: KafkaConnection, spec: GroupSpec): Promise<RunningRole> {
  const { group, reader } = spec
  const { metrics, fail } = context
  const { codec } = kafka
  const log = context.log.child({ group })
  const unknown = openUnknownEvents({ group, metrics, log })
  const parts = { codec, unknown, deadLetters: openDeadLetters({ group, codec, metrics, log }) }
  const open = async (topic: TopicKey, number: number, resumeAt: ResumeAt): Promise<Slot> => {
    const partition = await spec.open({ topic, partition: number }, resumeAt, () => watch.waited(topic, number))
    watch.moved(topic, number, partition.position().next)
    const { isCurrent } = partition
    return { partition, sought: undefined, batchSequence: 0, isCurrent, close: () => partition.close() }
  }
  const slots = openSlots<Slot>(open, log, reportStopped(context, group))
  const ids = await context.topicIds()
  const endIds = ids.onChange(spec.watched ?? spec.topics, () => slots.reopen())
  const watch = watchProgress({
    ...{ kafka, group, topics: spec.topics, reader, metrics, log, fail },
    isOpen: (topic, partition) => slots.peek(topic, partition) !== undefined,
    ...(spec.stalledAfterMs && { stalledAfterMs: spec.stalledAfterMs }),
  })
  const stores = watchStores(slots, log)
  const { maxBytesPerPartition } = spec
  const member = await joinGroup(
    kafka,
    { group, topics: spec.topics, ...(maxBytesPerPartition && { maxBytesPerPartition }), fail },
    batchLoop<Slot>({
      ...{ group, log, metrics, slots, watch, unknown },
      async process(slot, batch, tick, commit) {
        slot.batchSequence += 1
        try {
          return await take(parts, slot, batch, tick, commit)
        } finally {
          slot.batchSequence += 1
        }
      },
      passed: async ({ partition }, next) => partition.passed?.(next),
    }),
  )
  return {
    name: group,
    ready: async () => member.trouble() ?? slots.state() ?? unknown.report(),
    async stop() {
      endIds()
      await watch.close()
      await stores.close()
      await member.leave()
      await slots.close()
      await reader.close()
    },
  }
}

interface Parts {
  codec: Codec
  deadLetters: DeadLetters
  unknown: UnknownEvents
}

async function take(parts: Parts, slot: Slot, batch: MessageBatch, tick: Tick, commit: Commit): Promise<BatchAnswer> {
  const { partition } = slot
  const { next: from } = partition.position()
  if (batch.first > from && slot.sought !== from) {
    slot.sought = from
    return from
  }
  // A repeat, or what is missing was aborted; else it is another log, or records have expired.
  if (batch.first !== from) await whileTicking(partition.check(), tick)
  if (batch.next <= from) return from
  await whileTicking(parts.codec.learn(batch.messages), tick)
  if (partition.prepare) await whileTicking(partition.prepare(), tick)
  const { records, next, retryAfterMs } = await foldAll(parts, partition, batch, tick)
  await whileTicking(partition.write(records, next, commit), tick)
  if (retryAfterMs === undefined) return 'done'
  await whileTicking(delay(retryAfterMs), tick)
  return 'again'
}

/** Folding is synchronous: heartbeats must be sent in between. */
const RECORDS_PER_TICK = 5_000

/** Folds a batch's records in order, up to its end or to one that must wait. */
async function foldAll(
  { codec, deadLetters, unknown }: Parts,
  open: OpenPartition,
  batch: MessageBatch,
  tick: Tick,
): Promise<{ records: PlacedRecord[]; next: number; retryAfterMs: number | undefined }> {
  const { topic, partition } = batch
  const position = open.position()
  const records: PlacedRecord[] = []
  const fold = (record: StreamRecord): Outcome => open.fold(record, emitted => void records.push(emitted))
  for (const [index, message] of batch.messages.entries()) {
    if (index % RECORDS_PER_TICK === RECORDS_PER_TICK - 1) await tick()
    const { offset } = message
    if (offset < position.next) continue
    const found = foldRecord(codec, batch, message, mergeVersion(position, offset), fold)
    const outcome = unknown.judge({ topic, partition, offset }, found)
    if (outcome.kind === 'ok') continue
    if (outcome.kind === 'retry') return { records, next: offset, retryAfterMs: outcome.afterMs }
    const letter = deadLetters.recordOf({ topic: topics[topic].name, partition, ...message }, outcome)
    if (letter) records.push(letter)
  }
  return { records, next: batch.next, retryAfterMs: undefined }
}

/** Decodes a record, and folds it with the version of rows that rest on it. */
export function foldRecord(
  codec: Codec,
  { topic, partition }: Source,
  { offset, key, value, timestamp }: Pick<LogRecord, 'offset' | 'key' | 'value' | 'timestamp'>,
  version: number,
  fold: (record: StreamRecord) => Outcome,
): Outcome | UnknownOutcome {
  const decoded = decodeRecord(codec, topic, value)
  if (!isDecoded(decoded)) return decoded
  // Written out: a spread for each record would cost as much as its decoding.
  return fold({
    topic,
    partition,
    offset,
    version,
    key: key === null ? null : key.toString(),
    event: decoded.event,
    value: decoded.value,
    raw: value ?? Buffer.alloc(0),
    appendedAt: timestamp,
  })
}
