/**
 * `marketlog replay`: a range of a topic again, at the pace at which the log took it, faster, or as fast as it goes.
 *
 * Reads the brokers without a group, so it commits no offset. At speed 0 records come partition by partition as they
 * are fetched; at any other speed in the order of time over all partitions, each when its time has come. Order within a
 * partition always holds. Memory holds some pages of each partition, however long the range is.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { type LogAccess, offsetsIn, openLogAccess, rangesOf, type TopicRanges } from '#infra/kafka/log-access.ts'
import { type ScannedRecord, scanTopic } from '#infra/kafka/topic-scan.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { CommandFailure, exitCodes } from '../command-failure.ts'
import { openProgress } from '../progress.ts'
import { outputDestination, topicDestination } from './destinations.ts'
import { parsePosition, topicOf } from './log-position.ts'
import type { Output } from './output.ts'

/** What is replayed, how and to which destination. */
export interface ReplayOptions {
  from?: string
  to?: string
  /** Times the pace of the log; 0: as fast as it goes. */
  speed: number
  raw?: boolean
  toTopic?: string
  signal: AbortSignal
}

/** Replays; prints the number of records at the end. */
export async function replay(
  config: PlatformConfig,
  log: Log,
  topicText: string,
  output: Output,
  options: ReplayOptions,
): Promise<void> {
  const key = topicOf(topicText)
  const nowMs = Date.now()
  const [from, to] = [options.from, options.to].map(text =>
    text === undefined ? undefined : parsePosition(text, nowMs),
  )
  const access = await openLogAccess(config, log, [key])
  const progress = openProgress(process.stderr)
  try {
    const stretch = await rangesOf(access, key, from, to)
    const total = offsetsIn(stretch)
    const { toTopic, raw = false } = options
    const destination =
      toTopic === undefined ? outputDestination(access, key, output, raw) : await topicDestination(access, key, toTopic)
    let count = 0
    const deliver = async (records: readonly ScannedRecord[]): Promise<void> => {
      await destination.put(records)
      count += records.length
      progress.step(`replaying: ${count.toLocaleString('en')} of at most ${total.toLocaleString('en')} records`)
    }
    await play(access, stretch, options, deliver)
    await destination.close()
    progress.note(`replayed ${count.toLocaleString('en')} records`)
    if (options.signal.aborted) throw new CommandFailure('stopped before the end', exitCodes.stoppedBySignal)
  } finally {
    progress.stop()
    await access.close()
  }
}

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
  deliver: (records: readonly ScannedRecord[]) => Promise<void>,
  clock = CLOCK,
): Promise<void> {
  if (speed > 0) return playInTime(access, stretch, { speed, signal, clock }, deliver)
  for await (const page of scanTopic(access.reader, stretch.topic, stretch.ranges)) {
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
  deliver: (records: readonly ScannedRecord[]) => Promise<void>,
): Promise<void> {
  const heads: Head[] = []
  for (const [partition, range] of ranges) {
    const head = headOf(scanTopic(reader, topic, new Map([[partition, range]])))
    if (await head.advance()) heads.push(head)
  }
  const startedAt = clock.now()
  let firstTime: number | undefined
  let due: ScannedRecord[] = []
  for (;;) {
    const earliest = heads.reduce<Head | undefined>((least, head) => (isEarlier(head, least) ? head : least), undefined)
    const record = earliest?.record
    if (signal.aborted || !earliest || !record) break
    firstTime ??= record.timestamp
    const dueAt = startedAt + (record.timestamp - firstTime) / speed
    if (dueAt > clock.now() || due.length >= MOST_AT_ONCE) {
      if (due.length > 0) await deliver(due)
      due = []
      // In short pauses, so that it reacts to a signal soon.
      const wait = Math.min(LONGEST_WAIT_MS, dueAt - clock.now())
      if (wait > 0) await clock.wait(wait, signal)
      continue
    }
    due.push(record)
    if (!(await earliest.advance())) heads.splice(heads.indexOf(earliest), 1)
  }
  if (due.length > 0) await deliver(due)
}

/** The next record of a partition. */
interface Head {
  record: ScannedRecord | undefined
  /** Goes to the next one; false at the end. */
  advance(): Promise<boolean>
}

function headOf(pages: AsyncGenerator<ScannedRecord[]>): Head {
  let page: ScannedRecord[] = []
  let at = 0
  const head: Head = {
    record: undefined,
    async advance() {
      while (at >= page.length) {
        const next = await pages.next()
        if (next.done) {
          head.record = undefined
          return false
        }
        page = next.value
        at = 0
      }
      head.record = page[at++]
      return true
    },
  }
  return head
}

function isEarlier({ record }: Head, than: Head | undefined): boolean {
  if (!record) return false
  const other = than?.record
  return !other || record.timestamp < other.timestamp
}
