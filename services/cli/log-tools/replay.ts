/**
 * `marketlog replay`: a range of a topic again, at the pace at which the log took it, faster, or as fast as it goes; and how a range
 * of a topic is named and moved.
 *
 * Reads the brokers without a group, so it commits no offset. At speed 0 records come partition by partition as they
 * are fetched; at any other speed in the order of time over all partitions, each when its time has come. Order within a
 * partition always holds. Memory holds some pages of each partition, however long the range is.
 */
import { setTimeout as pause } from 'node:timers/promises'
import {
  type LogAccess,
  offsetsIn,
  rangesOf,
  type TopicPosition,
  type TopicRanges,
  withLogAccess,
} from '#infra/kafka/log-access.ts'
import { openTopicCopy } from '#infra/kafka/publisher.ts'
import type { LogRecord } from '#infra/kafka/range-reader.ts'
import { type TopicDefinition, type TopicKey, topics } from '#schemas/topics.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, parseInstant } from '#schemas/values/instant.ts'
import { CommandFailure, exitCodes, messageOf } from '../command-failure.ts'
import type { CommandContext } from '../output.ts'
import { type Progress, withProgress } from '../progress.ts'
import { openRecordWriter } from './record-text.ts'

/** A range of a topic, between positions as the user names them, and when to stop. */
export interface RangeOptions {
  from?: string
  to?: string
  signal: AbortSignal
}

export interface Target {
  add(records: readonly LogRecord[]): Promise<void>
  finish?(): Promise<void>
  /** Ends it where it is not complete, and removes that. */
  abandon?(): Promise<void> | void
}

const LONGEST_WAIT_MS = 1_000
const MOST_AT_ONCE = 1_000

/** Replays to the output, or to a topic of the operator's own; speed is times the pace of the log, 0 as fast as it goes. */
export const replay = (
  context: CommandContext,
  topic: string,
  { raw = false, toTopic, ...options }: RangeOptions & { speed: number; raw?: boolean; toTopic?: string },
): Promise<void> =>
  moveRange(context, topic, { ...options, verb: 'replay' }, async ({ kafka }, definition) => {
    if (toTopic === undefined) return { add: openRecordWriter(kafka.codec, definition, context.output, raw) }
    // Partitions, keys, bytes and times are the original's; the catalogue must not name it.
    const copy = await openTopicCopy(kafka, toTopic, definition.partitions).catch(error => {
      throw new CommandFailure(messageOf(error), exitCodes.usage, error)
    })
    return { add: copy.send, finish: copy.close, abandon: copy.close }
  })

/** Moves a range of a topic into a target; shows the number of records meanwhile and at the end. */
export async function moveRange(
  { config, log }: CommandContext,
  topicText: string,
  { from, to, speed = 0, signal, verb }: RangeOptions & { speed?: number; verb: 'replay' | 'export' },
  open: (access: LogAccess, topic: TopicDefinition) => Promise<Target>,
): Promise<void> {
  const key = topicOf(topicText)
  const nowMs = Date.now()
  const [start, end] = [from, to].map(text => (text === undefined ? undefined : parsePosition(text, nowMs)))
  const move = async (access: LogAccess, progress: Progress): Promise<void> => {
    const ranges = await rangesOf(access, key, start, end)
    const total = offsetsIn(ranges).toLocaleString('en')
    const target = await open(access, topics[key])
    let count = 0
    try {
      await play(access, ranges, { speed, signal }, async records => {
        await target.add(records)
        count += records.length
        progress.step(`${verb}ing: ${count.toLocaleString('en')} of at most ${total} records`)
      })
      if (signal.aborted) throw new CommandFailure('stopped before the end', exitCodes.stoppedBySignal)
      await target.finish?.()
    } catch (error) {
      await target.abandon?.()
      throw error
    }
    progress.note(`${verb}ed ${count.toLocaleString('en')} records`)
  }
  await withLogAccess(config, log, [key], access => withProgress(progress => move(access, progress)))
}

/** By which records are due: milliseconds since some moment, and a wait that ends early at the signal. */
const CLOCK = {
  now: () => performance.now(),
  wait: (ms: number, signal: AbortSignal): Promise<void> => pause(ms, undefined, { signal }).catch(() => undefined),
}

/** Delivers a range at a speed; resolves at its end or after the signal. */
export async function play(
  access: Pick<LogAccess, 'reader'>,
  stretch: TopicRanges,
  { speed, signal }: { speed: number; signal: AbortSignal },
  deliver: (records: readonly LogRecord[]) => Promise<void>,
  clock = CLOCK,
): Promise<void> {
  if (speed > 0) return playInTime(access, stretch, { speed, signal, clock }, deliver)
  for await (const page of access.reader.range(stretch.topic, stretch.ranges)) {
    if (signal.aborted) return
    await deliver(page)
  }
}

/** Always the earliest of the partitions' next records; those that are due are delivered together. */
async function playInTime(
  { reader }: Pick<LogAccess, 'reader'>,
  { topic, ranges }: TopicRanges,
  { speed, signal, clock }: { speed: number; signal: AbortSignal; clock: typeof CLOCK },
  deliver: (records: readonly LogRecord[]) => Promise<void>,
): Promise<void> {
  const heads: { record: LogRecord; next(): Promise<LogRecord | undefined> }[] = []
  for (const [partition, range] of ranges) {
    const records = recordsOf(reader.range(topic, new Map([[partition, range]])))
    const next = async () => (await records.next()).value ?? undefined
    const record = await next()
    if (record) heads.push({ record, next })
  }
  const startedAt = clock.now()
  const firstTime = Math.min(...heads.map(({ record }) => record.timestamp))
  let due: LogRecord[] = []
  while (heads.length > 0 && !signal.aborted) {
    const earliest = heads.reduce((least, head) => (head.record.timestamp < least.record.timestamp ? head : least))
    const dueAt = startedAt + (earliest.record.timestamp - firstTime) / speed
    if (dueAt > clock.now() || due.length >= MOST_AT_ONCE) {
      if (due.length > 0) await deliver(due)
      due = []
      // In short pauses, so that it reacts to a signal soon.
      const wait = Math.min(LONGEST_WAIT_MS, dueAt - clock.now())
      if (wait > 0) await clock.wait(wait, signal)
      continue
    }
    due.push(earliest.record)
    const next = await earliest.next()
    if (next) earliest.record = next
    else heads.splice(heads.indexOf(earliest), 1)
  }
  if (due.length > 0) await deliver(due)
}

async function* recordsOf(pages: AsyncGenerator<LogRecord[]>): AsyncGenerator<LogRecord> {
  for await (const page of pages) yield* page
}

/** The topic of a name of the catalogue, or of its short name in code. */
export function topicOf(text: string): TopicKey {
  const entries = Object.entries(topics) as [TopicKey, { name: string }][]
  const entry = entries.find(([key, { name }]) => key === text || name === text)
  if (entry) return entry[0]
  const names = entries.map(([, { name }]) => name).join(', ')
  throw new CommandFailure(`no topic is called ${text}. There are ${names}`, exitCodes.usage)
}

const UNIT_MS: Record<string, number> = { s: 1_000, m: MINUTE_MS, h: HOUR_MS, d: DAY_MS }

/** Reads `1200`, `-100`, `2h` (ago) or a time such as `2026-11-21T14:00:00Z`. */
export function parsePosition(text: string, nowMs: number): TopicPosition {
  if (/^\d+$/.test(text)) return { offset: Number(text) }
  if (/^-\d+$/.test(text)) return { last: -Number(text) }
  const [, count, unit] = /^(\d{1,9})([smhd])$/.exec(text) ?? []
  if (count !== undefined && unit !== undefined) {
    // Below 0 the brokers take a time for the log's start or end.
    return { time: Math.max(0, nowMs - Number(count) * (UNIT_MS[unit] ?? Number.NaN)) }
  }
  const time = parseInstant(text)
  if (time !== undefined) return { time }
  throw new CommandFailure(
    `${text} is no position: give an offset (1200), the last N records (-100), how long ago (30s, 15m, 2h, 7d) ` +
      'or a time (2026-11-21 or 2026-11-21T14:00:00Z)',
    exitCodes.usage,
  )
}
