/**
 * A member of a consumer group that hands over whole batches and leaves every decision to its handler.
 *
 * States: joining → assigned (`assigned` is called) → consuming → rebalancing → joining …, and stopped.
 * Offsets are resolved only when the handler answers `done`; nothing is committed here but what the handler commits or resumes
 * at. Invariant: a handler sends heartbeats while it works, through `tick`, since kafkajs has none in the background.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Consumer, EachBatchPayload, TopicPartitionOffsetAndMetadata } from 'kafkajs'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { coalesce } from '../runtime/async/coalesce.ts'
import type { KafkaConnection } from './connection.ts'
import { type GroupMember, openMember } from './membership.ts'

interface BatchMessage {
  offset: number
  key: Buffer | null
  value: Buffer | null
  /** When the log took it, in milliseconds since the epoch. */
  timestamp: number
}

export interface MessageBatch {
  topic: TopicKey
  partition: number
  /** Offset of the first record, control records included. */
  first: number
  /** Offset after the last record, control records included. */
  next: number
  messages: readonly BatchMessage[]
}

/** done: do not send it again. again: send it again. A number: go on from this offset. */
export type BatchAnswer = 'done' | 'again' | number

/** Sends a heartbeat when one is due; throws when the group is rebalancing. */
export type Tick = () => Promise<void>

/** Commits a partition's offset, which serves lag; a note says why the partition is not read. */
export type Commit = (topic: TopicKey, partition: number, next: number, note?: string) => Promise<void>

/**
 * Reads a partition from an offset on and commits it for the group, whether or not a record follows. Rejects when the
 * generation that it belongs to is over.
 */
export type ResumeAt = Commit

export interface GroupHandler {
  /** A new generation began; what was open before may have had another owner meanwhile. */
  assigned(partitions: { topic: TopicKey; partition: number }[], resumeAt: ResumeAt): void
  /** Handles a batch; calls tick at least every few seconds. */
  batch(batch: MessageBatch, tick: Tick, commit: Commit): Promise<BatchAnswer>
  /** Only control or aborted records are left before `next`. */
  passed(topic: TopicKey, partition: number, next: number, commit: Commit): Promise<void>
}

const CONCURRENT_PARTITIONS = 16
/** Of the 4,096 bytes that a broker takes. */
const LONGEST_NOTE = 1_000

export async function joinGroup(
  kafka: KafkaConnection,
  options: {
    group: string
    topics: readonly TopicKey[]
    /** Bytes that one fetch may return for a partition. */
    maxBytesPerPartition?: number
    fail(error: Error): void
  },
  handler: GroupHandler,
): Promise<GroupMember> {
  const keys = new Map(options.topics.map(key => [kafka.topicName(key), key]))
  const member = await openMember(kafka, options, {
    rebalanceTimeout: 15_000,
    maxWaitTimeInMs: 100,
    maxBytesPerPartition: options.maxBytesPerPartition ?? 2 ** 20,
    maxBytes: 16 * 2 ** 20,
  })
  const { consumer, trouble, leave } = member
  const commit = jointly(kafka, consumer)
  let generation = 0
  const resumeAtOf =
    (own: number): ResumeAt =>
    async (topic, partition, next, note) => {
      // The client resolves a commit without sending it until the event loop's turn of the join has ended.
      await nextTurn()
      if (own !== generation) throw new Error(`the generation that had ${topics[topic].name}-${partition} is over`)
      consumer.seek({ topic: kafka.topicName(topic), partition, offset: String(next) })
      await commit(topic, partition, next, note)
    }
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    generation += 1
    const assigned = Object.entries(payload.memberAssignment).flatMap(([name, partitions]) => {
      const topic = keys.get(name)
      return topic === undefined ? [] : partitions.map(partition => ({ topic, partition }))
    })
    handler.assigned(assigned, resumeAtOf(generation))
  })
  consumer.on(consumer.events.END_BATCH_PROCESS, ({ payload }) => {
    const topic = keys.get(payload.topic)
    if (payload.batchSize > 0 || topic === undefined || member.isLeaving()) return
    handler.passed(topic, payload.partition, Number(payload.lastOffset) + 1, commit).catch(options.fail)
  })
  await member.join(
    { topics: [...keys.keys()], fromBeginning: true },
    {
      eachBatchAutoResolve: false,
      partitionsConsumedConcurrently: CONCURRENT_PARTITIONS,
      eachBatch: payload => handle(consumer, payload, keys, commit, handler),
    },
  )
  return { trouble, leave }
}

/**
 * A fetch brings a batch of every partition, and they end at almost the same moment: committed one by one they were half of the
 * requests of live-view and alert-triggers. Of one partition the last offset goes.
 */
function jointly(kafka: KafkaConnection, consumer: Consumer): Commit {
  const commit = coalesce(async (offsets: readonly TopicPartitionOffsetAndMetadata[]) => {
    await consumer.commitOffsets([...new Map(offsets.map(one => [`${one.topic}/${one.partition}`, one])).values()])
    return offsets.map(() => undefined)
  })
  return (topic, partition, next, note = '') =>
    commit({ topic: kafka.topicName(topic), partition, offset: String(next), metadata: note.slice(0, LONGEST_NOTE) })
}

async function handle(
  consumer: Consumer,
  payload: EachBatchPayload,
  keys: ReadonlyMap<string, TopicKey>,
  commit: Commit,
  handler: GroupHandler,
): Promise<void> {
  const { batch, heartbeat, resolveOffset, isRunning } = payload
  const topic = keys.get(batch.topic)
  const last = batch.messages.at(-1)
  if (topic === undefined || last === undefined || !isRunning()) return
  const { partition } = batch
  const answer = await handler.batch(
    {
      topic,
      partition,
      first: Number(batch.firstOffset()),
      next: Number(batch.lastOffset()) + 1,
      messages: batch.messages.map(message => ({
        offset: Number(message.offset),
        key: message.key,
        value: message.value,
        timestamp: Number(message.timestamp),
      })),
    },
    heartbeat,
    commit,
  )
  if (answer === 'done') resolveOffset(last.offset)
  else if (answer !== 'again') consumer.seek({ topic: batch.topic, partition, offset: String(answer) })
  await heartbeat()
}
