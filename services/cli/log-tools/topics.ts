/**
 * `marketlog topics`: the catalogue of topics beside what the brokers hold of each. Sizes are compressed bytes on disk; offsets
 * count transaction markers too, so they bound the records from above.
 */
import { type LiveRetention, liveRetentions, readDiskBytes } from '#infra/kafka/admin.ts'
import { offsetsIn, rangesOf, withLogAccess } from '#infra/kafka/log-access.ts'
import { type TopicDefinition, type TopicKey, topics } from '#schemas/topics.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { readLags, sumByGroup } from '../lag.ts'
import { bytesText, type CommandContext, writeResults } from '../output.ts'

export async function showTopics(context: CommandContext, options: { json?: boolean }): Promise<void> {
  await writeResults(context.output, options, await readFacts(context), [
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
  ])
}

function readFacts({ config, log }: CommandContext) {
  const keys = Object.keys(topics) as TopicKey[]
  return withLogAccess(config, log, keys, async access => {
    const groupLags = sumByGroup(await readLags(config, log))
    const lags = new Map(groupLags.map(({ group, topic, lag }) => [`${group} ${topic}`, lag]))
    const diskBytes = new Map(
      (await readDiskBytes(access.kafka)).map(({ topic, partition, bytes }) => [`${topic}/${partition}`, bytes]),
    )
    const retentions = await liveRetentions(access.kafka)
    const facts = []
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
        // A reader without a group has no lag.
        readers: readers.map(reader => ({ reader, lag: lags.get(`${reader} ${name}`) ?? null })),
        partitions,
        offsets: offsetsIn(ranges),
        bytes: partitions.reduce((sum, { bytes }) => sum + bytes, 0),
        retention: retentions.get(name) ?? null,
      })
    }
    return facts
  })
}

function keptText(retention: LiveRetention | null): string {
  if (retention === null) return 'not there'
  if (retention.isCompacted) return 'last of a key'
  const time = retention.ms < 0 ? 'for ever' : `${Math.round(retention.ms / DAY_MS)} days`
  return retention.bytes < 0 ? time : `${time}, ${bytesText(retention.bytes)} a part`
}
