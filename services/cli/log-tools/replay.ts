/**
 * `marketlog replay`: a range of a topic again, at the pace at which the log took it, faster, or as fast as it goes.
 *
 * Reads the brokers without a group, so it commits no offset. At speed 0 records come partition by partition as they
 * are fetched; at any other speed in the order of time over all partitions, each when its time has come. Order within a
 * partition always holds. Memory holds some pages of each partition, however long the range is.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { LogAccess, TopicRanges } from '#infra/kafka/log-access.ts'
import { openTopicCopy } from '#infra/kafka/publisher.ts'
import type { LogRecord } from '#infra/kafka/range-reader.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { CommandFailure, exitCodes, messageOf } from '../command-failure.ts'
import type { Output } from '../output.ts'
import { openRecordWriter } from './record-text.ts'
import { withTopicRange } from './topic-range.ts'

export interface ReplayOptions {
  from?: string
  to?: string
  /** Times the pace of the log; 0: as fast as it goes. */
  speed: number
  raw?: boolean
  toTopic?: string
  signal: AbortSignal
}

/** Replays to the output, or to a topic of the operator's own; prints the number of records at the end. */
export async function replay(
  config: PlatformConfig,
  log: Log,
  topic: string,
  output: Output,
  options: ReplayOptions,
): Promise<void> {
  const { from, to, toTopic, raw = false, signal } = options
  await withTopicRange(
    config,
    log,
    { topic, from, to, verb: 'replay' },
    async ({ access, key, progress, ...range }) => {
      const copy = toTopic === undefined ? undefined : await openCopy(access, key, toTopic)
      const send = copy?.send ?? openRecordWriter(access.kafka.codec, topics[key], output, raw)
      let count = 0
      await play(access, range, options, async records => {
        await send(records)
        count += records.length
        progress(count)
      })
      await copy?.close()
      if (signal.aborted) throw new CommandFailure('stopped before the end', exitCodes.stoppedBySignal)
      return count
    },
  )
}

/** A topic that the catalogue does not name; partitions, keys, bytes and times are the original's. */
const openCopy = ({ kafka }: LogAccess, key: TopicKey, name: string) =>
  openTopicCopy(kafka, name, topics[key].partitions).catch(error => {
    throw new CommandFailure(messageOf(error), exitCodes.usage, error)
  })

/** By which records are due. */
interface PlayClock {
  /** Milliseconds since some moment. */
  now(): number
  /** Ends early at the signal. */
  wait(ms: number, signal: AbortSignal): Promise<void>
}

const CLOCK: PlayClock = {
  now: () => performance.now(),
  wait: (ms, signal) => pause(ms, undefined, { signal }).catch(() => undefined),
}

/** Delivers a range at a speed; resolves at its end or after the signal. */
export async function play(
  access: Pick<LogAccess, 'reader'>,
  stretch: TopicRanges,
  { speed, signal }: Pick<ReplayOptions, 'speed' | 'signal'>,
  deliver: (records: readonly LogRecord[]) => Promise<void>,
  clock = CLOCK,
): Promise<void> {
  if (speed > 0) return playInTime(access, stretch, { speed, signal, clock }, deliver)
  for await (const page of access.reader.range(stretch.topic, stretch.ranges)) {
    if (signal.aborted) return
    await deliver(page)
  }
}

const LONGEST_WAIT_MS = 1_000
const MOST_AT_ONCE = 1_000

/** Always the earliest of the partitions' next records; those that are due are delivered together. */
async function playInTime(
  { reader }: Pick<LogAccess, 'reader'>,
  { topic, ranges }: TopicRanges,
  { speed, signal, clock }: { speed: number; signal: AbortSignal; clock: PlayClock },
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
