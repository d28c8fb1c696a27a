/**
 * `marketlog tail`: records of a topic as they come, or from a position on.
 *
 * Reads the brokers only, without a group, so it commits no offset. Order holds within a partition. With
 * `--from -N` the last N records of the topic come first, in the order in which the log took them. Filters are
 * JSONata on {topic, partition, offset, key, event, value, timestamp}.
 */
import jsonata from 'jsonata'
import { follow } from '#infra/kafka/follower.ts'
import { rangesOf, withLogAccess } from '#infra/kafka/log-access.ts'
import type { LogRecord } from '#infra/kafka/range-reader.ts'
import { topics } from '#schemas/topics.ts'
import { CommandFailure, exitCodes, messageOf } from '../command-failure.ts'
import { type CommandContext, wantsTable, write } from '../output.ts'
import { type ShownRecord, showRecord } from './record-text.ts'
import { parsePosition, topicOf } from './replay.ts'

export async function tail(
  { config, log, output }: CommandContext,
  topicText: string,
  options: {
    from?: string
    key?: string
    filter?: string
    json?: boolean
    follow: boolean
    limit?: number
    signal: AbortSignal
  },
): Promise<void> {
  const key = topicOf(topicText)
  const position = options.from === undefined ? { last: 0 } : parsePosition(options.from, Date.now())
  const passes = filterOf(options.filter)
  let left = options.limit ?? Number.POSITIVE_INFINITY
  if (left === 0) return
  const limit = new AbortController()
  const signal = AbortSignal.any([options.signal, limit.signal])
  await withLogAccess(config, log, [key], async access => {
    const { kafka, reader } = access
    const print = async (records: readonly LogRecord[]): Promise<void> => {
      for (const record of records) {
        if (signal.aborted) return
        if (options.key !== undefined && record.key?.toString() !== options.key) continue
        const shown = showRecord(kafka.codec, topics[key].name, record)
        if (!(await passes(shown))) continue
        const text = wantsTable(output, options) ? lineOf(shown) : JSON.stringify(shown)
        await write(output, `${text}\n`)
        left -= 1
        if (left === 0) limit.abort()
      }
    }
    const { topic, ranges } = await rangesOf(access, key, position)
    let latest: LogRecord[] = []
    for await (const page of reader.range(topic, ranges)) {
      if (signal.aborted) return
      // Each partition gives its last N: the topic's last N are among them.
      if ('last' in position) latest = inLogOrder([...latest, ...page]).slice(-position.last)
      else await print(page)
    }
    await print(latest)
    if (!options.follow) return
    const from = (partition: number): number => ranges.get(partition)?.to ?? 0
    const { closed } = await follow(kafka, key, { from, signal, onRecords: print })
    await closed
  })
}

const inLogOrder = (records: LogRecord[]): LogRecord[] =>
  records.sort((a, b) => a.timestamp - b.timestamp || a.partition - b.partition || a.offset - b.offset)

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
