/**
 * `marketlog dead-letters list|show` and `unresolved list`: the records that views could not apply.
 *
 * Reads the topics dead-letters and market.unresolved, and the catalog. A record is numbered by its offset there. A
 * crash between writing and committing writes a letter twice: repeats have the same group and source offset and are listed
 * once, by the last.
 */
import { openCatalogReader } from '#infra/kafka/catalog-reader.ts'
import { type LogAccess, rangesOf, withLogAccess } from '#infra/kafka/log-access.ts'
import type { DeadLettered, NameUnresolved } from '#schemas/events/dead-lettered.ts'
import { CommandFailure } from '../command-failure.ts'
import { type CommandContext, write, writeResults } from '../output.ts'
import { showBytes } from './record-text.ts'

const SHOWN_DETAIL = 60

export async function listDeadLetters(
  { config, log, output }: CommandContext,
  options: { group?: string; reason?: string; json?: boolean },
): Promise<void> {
  const records = await withLogAccess(config, log, ['deadLetters'], access =>
    readRecords<DeadLettered>(access, 'deadLetters'),
  )
  const letters = records
    .map(({ number, at, value: { group, topic, partition, offset, reason, detail } }) => {
      return { number, at, group, topic, partition, offset, reason, detail }
    })
    .filter(({ group }) => options.group === undefined || options.group === group)
    .filter(({ reason }) => options.reason === undefined || options.reason === reason)
  await writeResults(output, options, letters, [
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
  ])
}

export async function showDeadLetter({ config, log, output }: CommandContext, number: number): Promise<void> {
  const whole = await withLogAccess(config, log, ['deadLetters'], async access => {
    const letter = (await readRecords<DeadLettered>(access, 'deadLetters')).find(each => each.number === number)
    if (!letter) throw new CommandFailure(`there is no dead letter ${number}; \`dead-letters list\` has them`)
    const { key, value, ...about } = letter.value
    const { codec } = access.kafka
    await codec.learn([letter.value])
    const record = { key: key?.toString() ?? null, ...showBytes(codec, value) }
    const bytes = { value_base64: value?.toString('base64') ?? null, value_bytes: value?.length ?? 0 }
    return { number, at: letter.at, ...about, record, ...bytes }
  })
  await write(output, `${JSON.stringify(whole, null, output.isTTY ? 2 : 0)}\n`)
}

export async function listUnresolved(
  { config, log, output }: CommandContext,
  options: { json?: boolean },
): Promise<void> {
  const names = await withLogAccess(config, log, ['unresolved'], async access => {
    const records = await readRecords<NameUnresolved>(access, 'unresolved')
    const catalog = await openCatalogReader(access.kafka)
    const byName = Map.groupBy(records, ({ value }) => JSON.stringify([value.market_hash_name, value.phase]))
    const unique = (texts: string[]): string[] => [...new Set(texts)].sort()
    const rows = [...byName].map(([text, each]) => {
      const [name, phase] = JSON.parse(text) as [string, NameUnresolved['phase']]
      return {
        name,
        phase,
        numbers: each.map(({ number }) => number),
        groups: unique(each.map(({ value }) => value.group)),
        providers: unique(each.map(({ value }) => value.provider)),
        last_at: unique(each.map(({ at }) => at)).at(-1) ?? '',
        item_id: catalog.idOf(name, phase) ?? null,
      }
    })
    await catalog.close()
    return rows
  })
  await writeResults(output, options, names, [
    { head: 'name', cell: ({ name }) => name },
    { head: 'phase', cell: ({ phase }) => phase },
    { head: 'records', cell: ({ numbers }) => numbers.length },
    { head: 'known now', cell: ({ item_id }) => (item_id === null ? 'no' : `item ${item_id}`) },
    { head: 'groups', cell: ({ groups }) => groups.join('\n') },
    { head: 'providers', cell: ({ providers }) => providers.join('\n'), spare: true },
    { head: 'last', cell: ({ last_at }) => last_at, spare: true },
  ])
}

/** The records of a topic, each source offset of a group once, with their number and the time at which the log took them. */
async function readRecords<T extends { group: string; topic: string; partition: number; offset: number }>(
  access: LogAccess,
  key: 'deadLetters' | 'unresolved',
) {
  const { topic, ranges } = await rangesOf(access, key, undefined)
  const records = new Map<string, { number: number; at: string; value: T }>()
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
