/**
 * `marketlog dead-letters list|show` and `unresolved list`: the records that views could not apply.
 *
 * Reads the topics dead-letters and market.unresolved, and the catalog. A record is numbered by its offset there. A
 * crash between writing and committing writes a letter twice: repeats have the same group and source offset and are listed
 * once, by the last.
 */
import { openCatalogReader } from '#infra/kafka/catalog-reader.ts'
import { type LogAccess, openLogAccess, rangesOf } from '#infra/kafka/log-access.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { DeadLettered, NameUnresolved } from '#schemas/events/dead-lettered.ts'
import { CommandFailure } from '../command-failure.ts'
import { type Column, type Output, write, writeResults } from '../output.ts'
import { showBytes } from './record-text.ts'

/** A dead letter or unresolved name, with its number and the time at which the log took it. */
interface NumberedRecord<T> {
  number: number
  at: string
  value: T
}

const SHOWN_DETAIL = 60

/** Prints the dead letters, of a group and of a reason where these are named. */
export async function listDeadLetters(
  config: PlatformConfig,
  log: Log,
  output: Output,
  options: { group?: string; reason?: string; json?: boolean },
): Promise<void> {
  const letters = await withAccess(config, log, 'deadLetters', readRecords<DeadLettered>)
  const chosen = letters
    .map(({ number, at, value: { group, topic, partition, offset, reason, detail } }) => {
      return { number, at, group, topic, partition, offset, reason, detail }
    })
    .filter(({ group }) => options.group === undefined || options.group === group)
    .filter(({ reason }) => options.reason === undefined || options.reason === reason)
  const columns: Column<(typeof chosen)[number]>[] = [
    { head: 'no', cell: ({ number }) => number },
    { head: 'group', cell: ({ group }) => group },
    { head: 'record', cell: ({ topic, partition, offset }) => `${topic} ${partition}@${offset}` },
    { head: 'reason', cell: ({ reason }) => reason },
    { head: 'at', cell: ({ at }) => at, spare: true },
    {
      head: 'detail',
      cell: ({ detail }) => (detail.length > SHOWN_DETAIL ? `${detail.slice(0, SHOWN_DETAIL)}…` : detail),
      spare: true,
    },
  ]
  await writeResults(output, options, columns, chosen)
}

/** Prints one dead letter whole. */
export async function showDeadLetter(config: PlatformConfig, log: Log, output: Output, number: number): Promise<void> {
  await withAccess(config, log, 'deadLetters', async (access, topic) => {
    const letter = (await readRecords<DeadLettered>(access, topic)).find(each => each.number === number)
    if (!letter) throw new CommandFailure(`there is no dead letter ${number}; \`dead-letters list\` has them`)
    const { key, value, ...about } = letter.value
    const { codec } = access.kafka
    await codec.learn([letter.value])
    const record = { key: key?.toString() ?? null, ...showBytes(codec, value) }
    const bytes = { value_base64: value?.toString('base64') ?? null, value_bytes: value?.length ?? 0 }
    const whole = { number, at: letter.at, ...about, record, ...bytes }
    await write(output, `${JSON.stringify(whole, null, output.isTTY ? 2 : 0)}\n`)
  })
}

/** Prints the names that the catalog lacked, one line for each. */
export async function listUnresolved(
  config: PlatformConfig,
  log: Log,
  output: Output,
  options: { json?: boolean },
): Promise<void> {
  const names = await withAccess(config, log, 'unresolved', async (access, topic) => {
    const records = await readRecords<NameUnresolved>(access, topic)
    const catalog = await openCatalogReader(access.kafka)
    const byName = Map.groupBy(records, ({ value }) => JSON.stringify([value.market_hash_name, value.phase]))
    const unique = (texts: string[]): string[] => [...new Set(texts)].sort()
    try {
      return [...byName].map(([text, each]) => {
        const [name, phase] = JSON.parse(text) as [string, NameUnresolved['phase']]
        return {
          ...{ name, phase },
          numbers: each.map(({ number }) => number),
          groups: unique(each.map(({ value }) => value.group)),
          providers: unique(each.map(({ value }) => value.provider)),
          last_at: unique(each.map(({ at }) => at)).at(-1) ?? '',
          item_id: catalog.idOf(name, phase) ?? null,
        }
      })
    } finally {
      await catalog.close()
    }
  })
  const columns: Column<(typeof names)[number]>[] = [
    { head: 'name', cell: ({ name }) => name },
    { head: 'phase', cell: ({ phase }) => phase },
    { head: 'records', cell: ({ numbers }) => numbers.length },
    { head: 'known now', cell: ({ item_id }) => (item_id === null ? 'no' : `item ${item_id}`) },
    { head: 'groups', cell: ({ groups }) => groups.join('\n') },
    { head: 'providers', cell: ({ providers }) => providers.join('\n'), spare: true },
    { head: 'last', cell: ({ last_at }) => last_at, spare: true },
  ]
  await writeResults(output, options, columns, names)
}

type LetterTopic = 'deadLetters' | 'unresolved'

async function withAccess<T>(
  config: PlatformConfig,
  log: Log,
  topic: LetterTopic,
  work: (access: LogAccess, topic: LetterTopic) => Promise<T>,
): Promise<T> {
  const access = await openLogAccess(config, log, [topic])
  try {
    return await work(access, topic)
  } finally {
    await access.close()
  }
}

/** The records of a topic, each source offset of a group once. */
async function readRecords<T extends { group: string; topic: string; partition: number; offset: number }>(
  access: LogAccess,
  key: LetterTopic,
): Promise<NumberedRecord<T>[]> {
  const { topic, ranges } = await rangesOf(access, key, undefined)
  const records = new Map<string, NumberedRecord<T>>()
  for await (const page of access.reader.range(topic, ranges)) {
    for (const { offset, timestamp, value: bytes } of page) {
      if (bytes === null) continue
      const value: T = access.kafka.codec.decode(bytes).value
      const source = `${value.group} ${value.topic}/${value.partition}@${value.offset}`
      records.set(source, { number: offset, at: new Date(timestamp).toISOString(), value })
    }
  }
  return [...records.values()]
}
