/**
 * `marketlog tail`: records of a topic as they come, or from a position on.
 *
 * Reads the brokers only, without a group, so it commits no offset. Order holds within a partition. With
 * `--from -N` the last N records of the topic come first, in the order in which the log took them. Filters are
 * JSONata on {topic, partition, offset, key, event, value, timestamp}.
 */
import { setTimeout as pause } from 'node:timers/promises'
import jsonata from 'jsonata'
import {
  type LogAccess,
  openLogAccess,
  rangesOf,
  type TopicPosition,
  type TopicRanges,
} from '#infra/kafka/log-access.ts'
import type { LogRecord } from '#infra/kafka/range-reader.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { topics } from '#schemas/topics.ts'
import { CommandFailure, exitCodes, messageOf } from '../command-failure.ts'
import { type Output, wantsTable, write } from '../output.ts'
import { type ShownRecord, showRecord } from './record-text.ts'
import { parsePosition, topicOf } from './topic-range.ts'

export interface TailOptions {
  from?: string
  key?: string
  filter?: string
  json?: boolean
  /** False: end at the log's end of now. */
  follow: boolean
  /** Ends after so many records. */
  limit?: number
  signal: AbortSignal
}

const POLL_MS = 100

/** Prints records until the limit, the end or the signal. */
export async function tail(
  config: PlatformConfig,
  log: Log,
  topicText: string,
  output: Output,
  options: TailOptions,
): Promise<void> {
  const key = topicOf(topicText)
  const position = options.from === undefined ? { last: 0 } : parsePosition(options.from, Date.now())
  const passes = filterOf(options.filter)
  const access = await openLogAccess(config, log, [key])
  let left = options.limit ?? Number.POSITIVE_INFINITY
  const print = async (records: readonly LogRecord[]): Promise<void> => {
    for (const record of records) {
      if (left <= 0 || options.signal.aborted) return
      if (options.key !== undefined && record.key?.toString() !== options.key) continue
      const shown = showRecord(access.kafka.codec, topics[key].name, record)
      if (!(await passes(shown))) continue
      left -= 1
      const text = wantsTable(output, options) ? lineOf(shown) : JSON.stringify(shown)
      await write(output, `${text}\n`)
    }
  }
  try {
    const isEnough = (): boolean => left <= 0 || options.signal.aborted
    let range = await rangesOf(access, key, position)
    await printRange(access, range, position, print, isEnough)
    while (options.follow && !isEnough()) {
      range = await after(access, range)
      await printRange(access, range, undefined, print, isEnough)
      await pause(POLL_MS, undefined, { signal: options.signal }).catch(() => undefined)
    }
  } finally {
    await access.close()
  }
}

async function printRange(
  { reader }: LogAccess,
  { topic, ranges }: TopicRanges,
  position: TopicPosition | undefined,
  print: (records: readonly LogRecord[]) => Promise<void>,
  isEnough: () => boolean,
): Promise<void> {
  const last = position !== undefined && 'last' in position ? position.last : undefined
  let latest: LogRecord[] = []
  for await (const page of reader.range(topic, ranges)) {
    if (isEnough()) return
    if (last === undefined) await print(page)
    // Each partition gave its last N: the topic's last N are among them.
    else latest = inLogOrder([...latest, ...page]).slice(-last)
  }
  await print(latest)
}

const inLogOrder = (records: LogRecord[]): LogRecord[] =>
  records.sort((a, b) => a.timestamp - b.timestamp || a.partition - b.partition || a.offset - b.offset)

/** The ranges that were appended since. */
async function after({ reader }: LogAccess, { topic, ranges }: TopicRanges): Promise<TopicRanges> {
  const next: TopicRanges['ranges'] = new Map()
  for (const [partition, { to }] of ranges) {
    next.set(partition, { from: to, to: Math.max(to, await reader.stableEnd(topic, partition)) })
  }
  return { topic, ranges: next }
}

/** A JSONata expression as a filter; a record passes where it is true, as `$boolean` says. */
function filterOf(text: string | undefined): (record: ShownRecord) => Promise<boolean> {
  if (text === undefined) return async () => true
  let expression: jsonata.Expression
  try {
    expression = jsonata(text)
  } catch (error) {
    throw new CommandFailure(`--filter is no JSONata: ${faultOf(error, text)}`, exitCodes.usage)
  }
  const isTrue = jsonata('$boolean($)')
  return async record => {
    try {
      return (await isTrue.evaluate(await expression.evaluate(record))) === true
    } catch (error) {
      const { partition, offset } = record
      throw new CommandFailure(`--filter fails on ${partition}@${offset}: ${faultOf(error, text)}`, exitCodes.badInput)
    }
  }
}

/** One line for a terminal. */
function lineOf({ partition, offset, key, event, value, timestamp }: ShownRecord): string {
  const at = new Date(timestamp).toISOString()
  return `${at}  ${partition}@${offset}  ${key ?? '-'}  ${event ?? 'unreadable'}  ${JSON.stringify(value)}`
}

const SHOWN_BEFORE = 20

/** JSONata throws a plain object; its position counts the characters up to the end of the faulty token. */
function faultOf(error: unknown, text: string): string {
  const { message, code, position } = error as { message?: unknown; code?: unknown; position?: unknown }
  if (typeof message !== 'string' || typeof code !== 'string') return messageOf(error)
  const fault = `${message} (${code})`
  if (typeof position !== 'number') return fault
  const before = text.slice(Math.max(0, position - SHOWN_BEFORE), position)
  return `${fault} at character ${position}, after ${JSON.stringify(before)}`
}
