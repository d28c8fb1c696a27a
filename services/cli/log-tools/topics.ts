/**
 * `marketlog topics`: the catalogue of topics beside what the brokers hold of each.
 *
 * Reads the brokers only. Writes a table on a terminal and JSON lines in a pipe. Sizes are compressed bytes on disk;
 * offsets count transaction markers too, so they bound the records from above.
 */
import { type LogAccess, offsetsIn, openLogAccess, rangesOf } from '#infra/kafka/log-access.ts'
import { type LiveRetention, liveRetentions } from '#infra/kafka/topic-settings.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { type TopicDefinition, type TopicKey, topics } from '#schemas/topics.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { sumByGroup } from '../group-lag.ts'
import { type TableColumn, tableText, wantsTable } from '../table.ts'
import { readLags } from '../wait-for-views.ts'
import { bytesText, type Output, write, writeJson } from './output.ts'

/** A topic by the catalogue and the brokers. */
interface TopicFacts {
  topic: string
  key: string
  events: string[]
  writer: string
  /** Lag is null for a reader without a group. */
  readers: { reader: string; lag: number | null }[]
  partitions: { partition: number; from: number; to: number; bytes: number }[]
  offsets: number
  bytes: number
  retention: LiveRetention | null
}

const COLUMNS: readonly TableColumn[] = [
  ...[{ head: 'topic' }, { head: 'parts' }, { head: 'offsets' }, { head: 'on disk' }, { head: 'kept' }],
  ...[{ head: 'readers (behind)' }, { head: 'writer', spare: true }, { head: 'key', spare: true }],
  { head: 'events', spare: true },
]

/** Prints every topic. */
export async function showTopics(
  config: PlatformConfig,
  log: Log,
  output: Output,
  options: { json?: boolean },
): Promise<void> {
  const facts = await readTopics(config, log)
  if (!wantsTable(output, options)) {
    for (const one of facts) await writeJson(output, one)
    return
  }
  const rows = facts.map(one => [
    ...[one.topic, one.partitions.length, one.offsets.toLocaleString('en'), bytesText(one.bytes)],
    ...[keptText(one.retention), one.readers.map(readerText).join('\n'), one.writer],
    ...[one.key.replaceAll(', ', '\n'), one.events.join('\n')],
  ])
  await write(output, tableText(output, COLUMNS, rows))
}

const readerText = ({ reader, lag }: TopicFacts['readers'][number]): string =>
  lag ? `${reader} (${lag.toLocaleString('en')})` : reader

/** Reads what the brokers hold of every topic. */
async function readTopics(config: PlatformConfig, log: Log): Promise<TopicFacts[]> {
  const keys = Object.keys(topics) as TopicKey[]
  const access = await openLogAccess(config, log, keys)
  try {
    const lags = new Map(sumByGroup(await readLags(config, log)).map(each => [`${each.group} ${each.topic}`, each]))
    const bytes = new Map(
      (await access.reader.diskBytes()).map(each => [`${each.topic}/${each.partition}`, each.bytes]),
    )
    const retentions = await liveRetentions(access.kafka)
    const facts: TopicFacts[] = []
    for (const key of keys) facts.push(await factsOf(access, key, { lags, bytes, retentions }))
    return facts
  } finally {
    await access.close()
  }
}

async function factsOf(
  access: LogAccess,
  topicKey: TopicKey,
  known: {
    lags: ReadonlyMap<string, { lag: number }>
    bytes: ReadonlyMap<string, number>
    retentions: ReadonlyMap<string, LiveRetention>
  },
): Promise<TopicFacts> {
  const { name, key, events, writer, readers }: TopicDefinition = topics[topicKey]
  const found = await rangesOf(access, topicKey, undefined)
  const partitions = [...found.ranges].map(([partition, range]) => {
    return { partition, ...range, bytes: known.bytes.get(`${found.topic}/${partition}`) ?? 0 }
  })
  return {
    topic: name,
    key,
    events: events.map(event => `${event.name} v${event.version}`),
    writer,
    readers: readers.map(reader => ({ reader, lag: known.lags.get(`${reader} ${name}`)?.lag ?? null })),
    partitions,
    offsets: offsetsIn(found),
    bytes: partitions.reduce((sum, one) => sum + one.bytes, 0),
    retention: known.retentions.get(name) ?? null,
  }
}

function keptText(retention: LiveRetention | null): string {
  if (retention === null) return 'not there'
  if (retention.isCompacted) return 'last of a key'
  const time = retention.ms < 0 ? 'for ever' : `${Math.round(retention.ms / DAY_MS)} days`
  return retention.bytes < 0 ? time : `${time}, ${bytesText(retention.bytes)} a part`
}
