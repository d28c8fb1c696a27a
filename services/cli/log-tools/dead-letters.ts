/**
 * `marketlog dead-letters list|show` and `unresolved list`: the records that views could not apply.
 *
 * Reads the topics dead-letters and market.unresolved, and the catalog. A record is numbered by its offset there. A
 * crash between writing and committing writes a letter twice: repeats have the same group and source offset and are listed
 * once, by the last. Writes tables on a terminal and JSON lines in a pipe.
 */
import { openCatalogReader } from '#infra/kafka/catalog-reader.ts'
import { type LogAccess, openLogAccess, rangesOf } from '#infra/kafka/log-access.ts'
import { scanTopic } from '#infra/kafka/topic-scan.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { DeadLettered, NameUnresolved } from '#schemas/events/dead-lettered.ts'
import type { TopicKey } from '#schemas/topics.ts'
import { CommandFailure } from '../command-failure.ts'
import { type TableColumn, tableText, wantsTable } from '../table.ts'
import { type Output, write, writeJson } from './output.ts'
import { showBytes } from './shown-record.ts'

/** A dead letter or unresolved name, with its number and the time at which the log took it. */
interface NumberedRecord<T> {
  number: number
  at: number
  value: T
}

/** Which letters are meant. */
interface Choice {
  group?: string
  reason?: string
}

interface ListOptions extends Choice {
  json?: boolean
}

const SHOWN_DETAIL = 60
const LETTER_COLUMNS: readonly TableColumn[] = [
  ...[{ head: 'no' }, { head: 'group' }, { head: 'record' }, { head: 'reason' }, { head: 'at', spare: true }],
  { head: 'detail', spare: true },
]
const NAME_COLUMNS: readonly TableColumn[] = [
  ...[{ head: 'name' }, { head: 'phase' }, { head: 'records' }, { head: 'known now' }, { head: 'groups' }],
  ...[
    { head: 'providers', spare: true },
    { head: 'last', spare: true },
  ],
]

/** Prints the dead letters. */
export async function listDeadLetters(
  config: PlatformConfig,
  log: Log,
  output: Output,
  options: ListOptions,
): Promise<void> {
  const access = await openLogAccess(config, log, ['deadLetters'])
  try {
    const letters = chosen(await readDeadLetters(access), options)
    const rows: (string | number)[][] = []
    for (const { number, at, value } of letters) {
      const { group, topic, partition, offset, reason, detail } = value
      if (!wantsTable(output, options)) {
        const source = { topic, partition, offset }
        await writeJson(output, { number, at: iso(at), group, ...source, reason, detail })
      } else {
        const text = detail.length > SHOWN_DETAIL ? `${detail.slice(0, SHOWN_DETAIL)}…` : detail
        rows.push([number, group, `${topic} ${partition}@${offset}`, reason, iso(at), text])
      }
    }
    if (wantsTable(output, options)) await write(output, tableText(output, LETTER_COLUMNS, rows))
  } finally {
    await access.close()
  }
}

/** Prints one dead letter whole. */
export async function showDeadLetter(config: PlatformConfig, log: Log, output: Output, number: number): Promise<void> {
  const access = await openLogAccess(config, log, ['deadLetters'])
  try {
    const letter = (await readDeadLetters(access)).find(each => each.number === number)
    if (!letter) throw new CommandFailure(`there is no dead letter ${number}; \`dead-letters list\` has them`)
    const { key, value, ...about } = letter.value
    await access.kafka.codec.learn([letter.value])
    const record = { key: key?.toString() ?? null, ...showBytes(access.kafka.codec, value) }
    const bytes = { value_base64: value?.toString('base64') ?? null, value_bytes: value?.length ?? 0 }
    const whole = { number, at: iso(letter.at), ...about, record, ...bytes }
    await write(output, `${JSON.stringify(whole, null, output.isTTY ? 2 : 0)}\n`)
  } finally {
    await access.close()
  }
}

/** Prints the names that the catalog lacked, one line for each. */
export async function listUnresolved(
  config: PlatformConfig,
  log: Log,
  output: Output,
  options: ListOptions,
): Promise<void> {
  const access = await openLogAccess(config, log, ['unresolved'])
  const catalog = await openCatalogReader(access.kafka)
  try {
    const names = Map.groupBy(
      await readUnresolved(access),
      ({ value }) => `${value.market_hash_name}\0${value.phase ?? ''}`,
    )
    const rows: (string | number)[][] = []
    for (const each of names.values()) {
      const value = (each[0] as NumberedRecord<NameUnresolved>).value
      const line = {
        name: value.market_hash_name,
        phase: value.phase,
        numbers: each.map(({ number }) => number),
        groups: unique(each.map(one => one.value.group)),
        providers: unique(each.map(one => one.value.provider)),
        last_at: iso(Math.max(...each.map(({ at }) => at))),
        item_id: catalog.idOf(value.market_hash_name, value.phase) ?? null,
      }
      if (!wantsTable(output, options)) await writeJson(output, line)
      else {
        rows.push([
          ...[line.name, line.phase ?? '', each.length, line.item_id === null ? 'no' : `item ${line.item_id}`],
          ...[line.groups.join('\n'), line.providers.join('\n'), line.last_at],
        ])
      }
    }
    if (wantsTable(output, options)) await write(output, tableText(output, NAME_COLUMNS, rows))
  } finally {
    await catalog.close()
    await access.close()
  }
}

/** The dead letters of the log, each source offset of a group once. */
async function readDeadLetters(access: LogAccess): Promise<NumberedRecord<DeadLettered>[]> {
  return once(await readAll<DeadLettered>(access, 'deadLetters'))
}

/** The unresolved names of the log, each source offset of a group once. */
async function readUnresolved(access: LogAccess): Promise<NumberedRecord<NameUnresolved>[]> {
  return once(await readAll<NameUnresolved>(access, 'unresolved'))
}

/** Those of a group and reason. */
const chosen = (letters: NumberedRecord<DeadLettered>[], { group, reason }: Choice): NumberedRecord<DeadLettered>[] =>
  letters.filter(
    ({ value }) => (group === undefined || value.group === group) && (reason === undefined || value.reason === reason),
  )

async function readAll<T>(access: LogAccess, key: TopicKey): Promise<NumberedRecord<T>[]> {
  const { topic, ranges } = await rangesOf(access, key, undefined)
  const found: NumberedRecord<T>[] = []
  for await (const page of scanTopic(access.reader, topic, ranges)) {
    for (const { offset, timestamp, value } of page) {
      if (value === null) continue
      found.push({ number: offset, at: timestamp, value: access.kafka.codec.decode(value).value })
    }
  }
  return found
}

function once<T extends { group: string; topic: string; partition: number; offset: number }>(
  all: NumberedRecord<T>[],
): NumberedRecord<T>[] {
  return [...new Map(all.map(one => [`${one.value.group} ${sourceOf(one.value)}`, one])).values()]
}

const sourceOf = ({ topic, partition, offset }: { topic: string; partition: number; offset: number }): string =>
  `${topic}/${partition}@${offset}`

const unique = (texts: string[]): string[] => [...new Set(texts)].sort()

const iso = (at: number): string => new Date(at).toISOString()
