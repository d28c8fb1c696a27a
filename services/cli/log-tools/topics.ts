/**
 * `marketlog topics`: the catalogue of topics beside what the brokers hold of each.
 *
 * Reads the brokers only. Sizes are compressed bytes on disk; offsets count transaction markers too, so they bound the records
 * from above.
 */

import { type LiveRetention, liveRetentions, readDiskBytes } from '#infra/kafka/admin.ts'
import { offsetsIn, openLogAccess, rangesOf } from '#infra/kafka/log-access.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { type TopicDefinition, type TopicKey, topics } from '#schemas/topics.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { readLags, sumByGroup } from '../lag.ts'
import { bytesText, type Column, type Output, writeResults } from '../output.ts'

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

const COLUMNS: readonly Column<TopicFacts>[] = [
  { head: 'topic', cell: ({ topic }) => topic },
  { head: 'parts', cell: ({ partitions }) => partitions.length },
  { head: 'offsets', cell: ({ offsets }) => offsets.toLocaleString('en') },
  { head: 'on disk', cell: ({ bytes }) => bytesText(bytes) },
  { head: 'kept', cell: ({ retention }) => keptText(retention) },
  {
    head: 'readers (behind)',
    cell: ({ readers }) =>
      readers.map(({ reader, lag }) => (lag ? `${reader} (${lag.toLocaleString('en')})` : reader)).join('\n'),
  },
  { head: 'writer', cell: ({ writer }) => writer, spare: true },
  { head: 'key', cell: ({ key }) => key.replaceAll(', ', '\n'), spare: true },
  { head: 'events', cell: ({ events }) => events.join('\n'), spare: true },
]

export async function showTopics(
  config: PlatformConfig,
  log: Log,
  output: Output,
  options: { json?: boolean },
): Promise<void> {
  const keys = Object.keys(topics) as TopicKey[]
  const access = await openLogAccess(config, log, keys)
  try {
    const groupLags = sumByGroup(await readLags(config, log))
    const lags = new Map(groupLags.map(({ group, topic, lag }) => [`${group} ${topic}`, lag]))
    const diskBytes = new Map(
      (await readDiskBytes(access.kafka)).map(({ topic, partition, bytes }) => [`${topic}/${partition}`, bytes]),
    )
    const retentions = await liveRetentions(access.kafka)
    const facts: TopicFacts[] = []
    for (const topicKey of keys) {
      const { name, key, events, writer, readers }: TopicDefinition = topics[topicKey]
      const ranges = await rangesOf(access, topicKey, undefined)
      const partitions = [...ranges.ranges].map(([partition, range]) => {
        return { partition, ...range, bytes: diskBytes.get(`${ranges.topic}/${partition}`) ?? 0 }
      })
      facts.push({
        topic: name,
        key,
        events: events.map(event => `${event.name} v${event.version}`),
        writer,
        readers: readers.map(reader => ({ reader, lag: lags.get(`${reader} ${name}`) ?? null })),
        partitions,
        offsets: offsetsIn(ranges),
        bytes: partitions.reduce((sum, { bytes }) => sum + bytes, 0),
        retention: retentions.get(name) ?? null,
      })
    }
    await writeResults(output, options, COLUMNS, facts)
  } finally {
    await access.close()
  }
}

function keptText(retention: LiveRetention | null): string {
  if (retention === null) return 'not there'
  if (retention.isCompacted) return 'last of a key'
  const time = retention.ms < 0 ? 'for ever' : `${Math.round(retention.ms / DAY_MS)} days`
  return retention.bytes < 0 ? time : `${time}, ${bytesText(retention.bytes)} a part`
}
