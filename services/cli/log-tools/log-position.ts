import type { TopicPosition } from '#infra/kafka/log-access.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, parseInstant } from '#schemas/values/instant.ts'
import { CommandFailure, exitCodes } from '../command-failure.ts'

/** The topic of a name of the catalogue, or of its short name in code. */
export function topicOf(text: string): TopicKey {
  const entries = Object.entries(topics) as [TopicKey, { name: string }][]
  const found = entries.find(([key, { name }]) => key === text || name === text)
  if (found) return found[0]
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
