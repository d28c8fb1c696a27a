/**
 * Where a view, or the book, goes on in a partition of the log: one decision for all of them.
 *
 * A position knows the id of its topic. Invariant: nothing is read on from a position of another topic, beyond the log's end, or
 * before its start: what is there is not what follows the position.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { RangeReader } from '#infra/kafka/range-reader.ts'
import { Refused } from '#infra/runtime/refused.ts'
import type { TopicIds } from '#infra/runtime/role.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'

/** The next offset that a view lacks of a partition, stored with what it describes. */
export interface Position {
  topicId: string
  next: number
}

/** The position of a view in a partition; it is stored with the view, and says whether the view may be read. */
export interface ViewPosition extends Position {
  /** How many topics of the name the view has read before this one: what rests on them is in the log no more. None when left out. */
  generation?: number
  /** Its readers are refused until this offset is reached: the view was lost, or set back to an earlier time. */
  until?: number
  /** Its readers are refused: the view has stopped, and why. */
  fault?: string
}

export function parsePosition(text: string | null): ViewPosition | undefined {
  return text === null ? undefined : (JSON.parse(text) as ViewPosition)
}

/** The position of a view that was at one and has reached `next`. */
export function advanced({ topicId, generation, until }: ViewPosition, next: number): ViewPosition {
  return {
    topicId,
    ...(generation && { generation }),
    next,
    ...(until !== undefined && next < until && { until }),
  }
}

/** The position of a view that begins, or begins again, at one; its readers wait until `end` is reached. */
export const positionFrom = (from: ViewPosition, end: number): ViewPosition =>
  advanced({ ...from, until: end }, from.next)

/** The position of a view that is built from the log that is there, up to `next`. */
export function rebuiltPosition(
  stored: ViewPosition | undefined,
  { topicId }: PartitionLog,
  next: number,
): ViewPosition {
  const isSameTopic = stored === undefined || stored.topicId === topicId
  const generation = (stored?.generation ?? 0) + (isSameTopic ? 0 : 1)
  return advanced({ topicId, generation, next }, next)
}

/** More offsets than a partition ever has; 2^12 generations of them are whole numbers still. */
const OFFSETS = 2 ** 40

/** The version by which rows that rest on the record at an offset merge, in a view that is at a position. */
export const mergeVersion = ({ generation = 0 }: Pick<ViewPosition, 'generation'>, offset: number): number =>
  generation * OFFSETS + offset

export const isSamePosition = (one: ViewPosition, other: ViewPosition | undefined): boolean =>
  one.topicId === other?.topicId && one.next === other.next && one.until === other.until && one.fault === other.fault

/** Whether the log that is there holds all that a view rests on. */
export const holdsAll = (stored: ViewPosition | undefined, { topicId, start }: PartitionLog): boolean =>
  start === 0 && (stored === undefined || (stored.topicId === topicId && !stored.generation))

/** Whether a view has less at a position than at one that was seen before: its store was set back, and it is read again. */
export const isSetBack = (seen: ViewPosition | undefined, now: ViewPosition): boolean =>
  seen?.topicId === now.topicId && seen.next > now.next

/** Why a view at a position may not be read; undefined: it may. */
export function incompleteness({ next, until, fault }: ViewPosition): string | undefined {
  return fault ?? (until === undefined ? undefined : `it is at ${next}, and lacks what is before ${until}`)
}

/** Says of one stored position after the other, as a reader of the view finds them, why the view may not be read; undefined: it may. */
export function openReadJudge(): (stored: ViewPosition | undefined) => string | undefined {
  let seen: ViewPosition | undefined
  return stored => {
    if (stored === undefined) return 'it is not there'
    if (isSetBack(seen, stored)) return `it is at ${stored.next}, and was at ${seen?.next}`
    seen = stored
    return incompleteness(stored)
  }
}

export interface Source {
  topic: TopicKey
  partition: number
}

export const sourceName = ({ topic, partition }: Source): string => `${topic}-${partition}`

export const sourcesOf = ({ topics: read }: { readonly topics: readonly TopicKey[] }): Source[] =>
  read.flatMap(topic => Array.from({ length: topics[topic].partitions }, (_, partition) => ({ topic, partition })))

/** Another owner has written what this one was about to. */
export class Conflict extends Error {}

export interface PartitionLog {
  topicId: string
  /** The first offset that it still holds. */
  start: number
  /** The offset after its last record, open transactions included. */
  end: number
}

/** Go on, build from the beginning, or stop and say why; `expired`: records that the log no longer holds. */
export type Decision =
  | { kind: 'resume'; next: number }
  | { kind: 'build' }
  | { kind: 'stop'; fault: string; expired: number }

/** Decides where to go on from a stored position, given the log as it is now. */
export function decide(stored: Position | undefined, log: PartitionLog): Decision {
  if (stored === undefined) return { kind: 'build' }
  const stop = (fault: string, expired = 0): Decision => ({ kind: 'stop', fault, expired })
  if (stored.topicId !== log.topicId)
    return stop(
      `the position is of the topic with id ${stored.topicId}, which was deleted; its id is ${log.topicId} now`,
    )
  if (stored.next > log.end) return stop(`the position is ${stored.next}, and the log ends at ${log.end}`)
  if (stored.next < log.start)
    return stop(
      `${log.start - stored.next} records from ${stored.next} to ${log.start} have expired unread`,
      log.start - stored.next,
    )
  return { kind: 'resume', next: stored.next }
}

/** Has a view go on with the log that is there. */
export const rebuildCommand = (view: string, { expired }: { expired: number }): string =>
  `marketlog rebuild ${view}${expired > 0 ? ' --accept-loss' : ''}`

/** Throws where a rebuild would go on without records that its view never saw, unless that is accepted. */
export function assertNoLoss(
  view: string,
  stored: ViewPosition | undefined,
  log: PartitionLog,
  isAccepted: boolean,
): void {
  const decision = decide(stored, log)
  if (decision.kind === 'stop' && decision.expired > 0 && !isAccepted)
    throw new Refused(
      `${decision.fault}: what they said is lost. To go on without: \`${rebuildCommand(view, decision)}\``,
    )
}

/** A partition that cannot be read on from its position; waiting does not help, a command does. */
export class Stopped extends Refused {
  constructor(group: string, source: Source, fault: string, command: string) {
    const partition = `${topics[source.topic].name}-${source.partition}`
    super(`${group} does not go on reading ${partition}: ${fault}. To go on with what is there now: \`${command}\``)
  }
}

const SETTLED_WITHIN_MS = 10_000
const PAUSE_MS = 500

export interface LogParts {
  kafka: KafkaConnection
  reader: RangeReader
  ids: TopicIds
}

/**
 * Reads what a partition's log is now. A broker that has just become its leader, or learns of a topic late, may show an earlier state: a
 * position that fits no more is compared again until it is settled. Rejects while there is no such topic.
 */
export async function readPartitionLog(
  { kafka, reader, ids }: LogParts,
  { topic, partition }: Source,
  stored: Position | undefined,
  settledWithinMs = SETTLED_WITHIN_MS,
): Promise<PartitionLog> {
  const name = kafka.topicName(topic)
  const limit = performance.now() + settledWithinMs
  for (;;) {
    const topicId = await ids.idOf(topic)
    const log = { topicId, start: await reader.start(name, partition), end: await reader.end(name, partition) }
    if (decide(stored, log).kind !== 'stop' || performance.now() > limit) return log
    await delay(PAUSE_MS)
  }
}
