import {
  type LogAccess,
  offsetsIn,
  openLogAccess,
  rangesOf,
  type TopicPosition,
  type TopicRanges,
} from '#infra/kafka/log-access.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, parseInstant } from '#schemas/values/instant.ts'
import { CommandFailure, exitCodes } from '../command-failure.ts'
import { openProgress } from '../progress.ts'

interface TopicRange extends TopicRanges {
  access: LogAccess
  key: TopicKey
  /** Shows how many records were done of at most so many. */
  progress(count: number): void
}

/** Reads a range of a topic: `work` resolves with the number of records, which is shown at the end. */
export async function withTopicRange(
  config: PlatformConfig,
  log: Log,
  { topic, from, to, verb }: { topic: string; from?: string; to?: string; verb: 'replay' | 'export' },
  work: (range: TopicRange) => Promise<number>,
): Promise<void> {
  const key = topicOf(topic)
  const nowMs = Date.now()
  const [start, end] = [from, to].map(text => (text === undefined ? undefined : parsePosition(text, nowMs)))
  const access = await openLogAccess(config, log, [key])
  const progress = openProgress(process.stderr)
  try {
    const ranges = await rangesOf(access, key, start, end)
    const total = offsetsIn(ranges).toLocaleString('en')
    const show = (count: number): void =>
      progress.step(`${verb}ing: ${count.toLocaleString('en')} of at most ${total} records`)
    const count = await work({ ...ranges, access, key, progress: show })
    progress.note(`${verb}ed ${count.toLocaleString('en')} records`)
  } finally {
    progress.stop()
    await access.close()
  }
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
