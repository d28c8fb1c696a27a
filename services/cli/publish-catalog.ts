/**
 * Publishes the built catalog to its compacted topic when the log holds another version that is not newer.
 *
 * For the set-up step alone, which holds a lock meanwhile. Invariant: the version record is written last, so the log's last
 * record names the version exactly when all of its items precede it; a publication that was cut off is repeated from its
 * beginning.
 */
import { catalogRevision, catalogVersion, loadCatalog, revisionOf } from '#infra/config/catalog.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { decodeLearning } from '#infra/kafka/learning.ts'
import { openPublisher } from '#infra/kafka/publisher.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { catalogItemPublished, catalogVersionPublished } from '#schemas/events/catalog-item-published.ts'

const WRITER = 'setup'
const ITEMS_PER_SEND = 2_000
const PARTITION = 0

/** Publishes what is missing; returns the number of items published, 0 when the log is up to date or ahead. */
export async function publishCatalog(kafka: KafkaConnection): Promise<number> {
  const version = catalogVersion()
  const published = await publishedVersion(kafka)
  if (published === version || revisionOf(published ?? '') > catalogRevision()) return 0
  const items = loadCatalog()
  const publisher = await openPublisher(kafka, WRITER)
  try {
    for (let from = 0; from < items.length; from += ITEMS_PER_SEND) {
      await publisher.send(
        items.slice(from, from + ITEMS_PER_SEND).map(item => ({
          topic: 'catalog' as const,
          key: String(item.item_id),
          partition: PARTITION,
          value: kafka.codec.encode(catalogItemPublished, { ...item, supply: item.supply ?? null } as never),
        })),
      )
    }
    const value = kafka.codec.encode(catalogVersionPublished, { version, items: items.length })
    await publisher.send([{ topic: 'catalog', key: 'version', value, partition: PARTITION }])
  } finally {
    await publisher.close()
  }
  return items.length
}

/** The version that the log's last record names; undefined when it is an item or there is none. */
async function publishedVersion(kafka: KafkaConnection): Promise<string | undefined> {
  const topic = kafka.topicName('catalog')
  const reader = await openRangeReader(kafka, [topic])
  try {
    const to = await reader.end(topic, PARTITION)
    let last: Buffer | null = null
    await reader.read({ topic, partition: PARTITION, from: to - 1, to }, record => {
      last = record.value
    })
    if (last === null) return undefined
    const { event, value } = await decodeLearning(kafka.codec, last)
    return event === catalogVersionPublished.name ? value.version : undefined
  } finally {
    await reader.close()
  }
}
