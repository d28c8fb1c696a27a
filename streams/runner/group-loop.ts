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
  type GroupHandler,
  joinGroup,
  type MessageBatch,
  type ResumeAt,
  type Tick,
} from '#infra/kafka/group-consumer.ts'
import type { Outgoing } from '#infra/kafka/publisher.ts'
import type { RangeReader } from '#infra/kafka/range-reader.ts'
import { openBackoff } from '#infra/kafka/refusal.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import type { RoleContext, RunningRole } from '#infra/runtime/role.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { type LetterOf, openDeadLetters } from './dead-letters.ts'
import { foldRecord } from './decoding.ts'
import type { Outcome, StreamRecord } from './outcome.ts'
import {
  openPartitions,
  type Partitions,
  reportStopped,
  type WatchedPartition,
  watchStores,
  whileTicking,
} from './partitions.ts'
import { mergeVersion, type Source, Stopped, type ViewPosition } from './positions.ts'
import { type ProgressWatch, watchProgress } from './progress-watch.ts'
import { openUnknownEvents, type UnknownEvents } from './unknown-events.ts'

export type PlacedRecord = Outgoing & { partition: number }

export interface OpenPartition {
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

export interface GroupSpec {
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

export interface Opened extends WatchedPartition {
  partition: OpenPartition
  /** The offset that was sought because the group's was past the stored one. */
  sought: number | undefined
}

export async function runGroup(context: RoleContext, kafka: KafkaConnection, spec: GroupSpec): Promise<RunningRole> {
  const { group, reader } = spec
  const { metrics, fail } = context
  const log = context.log.child({ group })
  const unknown = openUnknownEvents({ group, metrics, log })
  const open = async (source: Source, resumeAt: ResumeAt): Promise<Opened> => {
    const partition = await spec.open(source, resumeAt, () => watch.waited(source))
    watch.moved(source, partition.position().next)
    const { isCurrent } = partition
    return { partition, sought: undefined, batchSequence: 0, isCurrent, close: () => partition.close() }
  }
  const partitions = openPartitions<Opened>(open, log, reportStopped(context, group))
  const ids = await context.topicIds()
  const endIds = ids.onChange(spec.watched ?? spec.topics, () => partitions.reopen())
  const watch = watchProgress({
    kafka,
    group,
    topics: spec.topics,
    reader,
    metrics,
    log,
    fail,
    isOpen: source => partitions.peek(source) !== undefined,
    ...(spec.stalledAfterMs && { stalledAfterMs: spec.stalledAfterMs }),
  })
  const stores = watchStores(partitions, log)
  const { maxBytesPerPartition } = spec
  const member = await joinGroup(
    kafka,
    { group, topics: spec.topics, ...(maxBytesPerPartition && { maxBytesPerPartition }), fail },
    batchLoop({ group, codec: kafka.codec, log, metrics, partitions, watch, unknown }),
  )
  return {
    name: group,
    ready: async () => member.trouble() ?? partitions.state() ?? unknown.report(),
    async stop() {
      endIds()
      await watch.close()
      await stores.close()
      await member.leave()
      await partitions.close()
      await reader.close()
    },
  }
}

interface Parts {
  codec: Codec
  letterOf: LetterOf
  unknown: UnknownEvents
}

async function processBatch(
  parts: Parts,
  opened: Opened,
  batch: MessageBatch,
  tick: Tick,
  commit: Commit,
): Promise<BatchAnswer> {
  const { partition } = opened
  const { next: from } = partition.position()
  if (batch.first > from && opened.sought !== from) {
    opened.sought = from
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
  { codec, letterOf, unknown }: Parts,
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
    const result = foldRecord(codec, batch, message, mergeVersion(position, offset), fold)
    const outcome = unknown.judge({ topic, partition, offset }, result)
    if (outcome.kind === 'ok') continue
    if (outcome.kind === 'retry') return { records, next: offset, retryAfterMs: outcome.afterMs }
    const letter = letterOf({ topic: topics[topic].name, partition, ...message }, outcome)
    if (letter) records.push(letter)
  }
  return { records, next: batch.next, retryAfterMs: undefined }
}

const STOPPED_PAUSE_MS = 2_000

/**
 * Handles the batches of a group. An error drops the open partition, so nothing that a failed attempt left in memory is used again; an
 * error of the group goes on to the client, which joins again.
 */
export function batchLoop(options: {
  group: string
  codec: Codec
  log: Log
  metrics: Metrics
  partitions: Partitions<Opened>
  watch: Pick<ProgressWatch, 'assigned' | 'moved' | 'waited'>
  unknown: UnknownEvents
}): GroupHandler {
  const { group, codec, log, metrics, partitions, watch, unknown } = options
  const parts = { codec, unknown, letterOf: openDeadLetters({ group, codec, metrics, log }) }
  const seconds = metrics.histogram('marketlog_batch_seconds', 'Time from a batch to its commit.', ['group'])
  const counter = metrics.counter('marketlog_records_taken_total', 'Records taken by a group.', ['group'])
  const backoff = openBackoff(Date.now)
  return {
    assigned(assigned, resumeAt) {
      watch.assigned(assigned)
      unknown.assigned(assigned)
      partitions.replace(assigned, resumeAt)
    },
    async batch(batch, tick, commit) {
      await tick()
      const end = seconds.startTimer({ group })
      try {
        const opened = await partitions.get(batch, tick)
        opened.batchSequence += 1
        const answer = await processBatch(parts, opened, batch, tick, commit).finally(() => {
          opened.batchSequence += 1
        })
        backoff.succeeded()
        // The client that was beyond the log's end has committed "the beginning" for the group; a batch that repeats commits nothing itself.
        if (typeof answer === 'number') await commit(batch.topic, batch.partition, answer)
        if (answer === 'again') watch.waited(batch)
        else {
          watch.moved(batch, answer === 'done' ? batch.next : answer)
          unknown.passed(batch)
        }
        counter.inc({ group }, batch.messages.length)
        return answer
      } catch (error) {
        const isStopped = error instanceof Stopped
        if (isStopped) watch.waited(batch)
        else log.warn({ error, partition: batch.partition }, 'a batch did not go through; it is tried again')
        const dropped = partitions.drop(batch)
        const groupError = groupErrorIn(error)
        if (groupError !== undefined) {
          // The group does not wait for a partition that is still opening and may be another's by now.
          dropped.catch(closing => log.debug({ error: closing }, 'closing a partition'))
          throw groupError
        }
        await dropped
        // A stopped partition is opened again for the next try, since a command may have decided meanwhile.
        await whileTicking(delay(isStopped ? STOPPED_PAUSE_MS : backoff.failed(error)), tick)
        return 'again'
      } finally {
        end()
      }
    },
    async passed(topic, partition, next, commit) {
      watch.moved({ topic, partition }, next)
      const opened = partitions.peek({ topic, partition })
      if (opened === undefined) return
      try {
        await opened.partition.passed?.(next)
      } catch (error) {
        log.warn({ error, partition }, 'a position could not be written; the partition is opened again')
        partitions.reopen(opened)
        return
      }
      await commit(topic, partition, next).catch(rethrowUnlessGroupError)
    },
  }
}

/**
 * The errors that mean "join the group again". The client does so by itself when such an error reaches it bare; inside the wrapper that its
 * retries put around it, it ends the consumer. So they are unwrapped; by code, never by message text.
 */
const GROUP_ERRORS = new Set([
  'REBALANCE_IN_PROGRESS',
  'UNKNOWN_MEMBER_ID',
  'ILLEGAL_GENERATION',
  'NOT_COORDINATOR_FOR_GROUP',
])

/** The error of the group in what was thrown, itself or its cause; undefined when the work failed. */
export function groupErrorIn(error: unknown): unknown {
  const { type, cause } = error as { type?: string; cause?: { type?: string } }
  if (GROUP_ERRORS.has(type ?? '')) return error
  return GROUP_ERRORS.has(cause?.type ?? '') ? cause : undefined
}

/** For work that a rebalance may make pointless. */
function rethrowUnlessGroupError(error: unknown): void {
  if (groupErrorIn(error) === undefined) throw error
}
