/**
 * The book on a real log: real refreshes in, changes out, exactly those of a brute-force fold.
 *
 * The fold is plain maps over the refresh files and shares no code with the book. Read back
 * read_committed by the range reader.
 */
import { expect } from 'chai'
import { loadCatalog } from '#infra/config/catalog.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { decodeLearning } from '#infra/kafka/learning.ts'
import { openPublisher, type Publisher } from '#infra/kafka/publisher.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { start as startBook } from '#streams/book/main.ts'
import { type RecordedRefresh, readRefreshes } from '#test/fixtures/recorded-refreshes.ts'
import { eventually } from '#test/harness/eventually.ts'
import { refreshOf, refreshRecords } from '#test/harness/published-records.ts'
import { useServers } from '#test/harness/use-servers.ts'

interface Entry {
  partition: number
  offset: number
  event: string
  // biome-ignore lint/suspicious/noExplicitAny: the event's name decides the shape.
  value: any
}

/** All committed records of a topic, partition by partition. */
async function readTopic(kafka: KafkaConnection, topic: TopicKey): Promise<Entry[]> {
  const name = kafka.topicName(topic)
  const reader = await openRangeReader(kafka, [name])
  const entries: Entry[] = []
  for (let partition = 0; partition < topics[topic].partitions; partition++) {
    // A commit reaches partition after partition; a read up to this end waits for those that it has not reached.
    const to = await reader.end(name, partition)
    await reader.read({ topic: name, partition, from: 0, to }, async ({ offset, value }) => {
      if (value) entries.push({ partition, offset, ...(await decodeLearning(kafka.codec, value)) })
    })
  }
  await reader.close()
  return entries
}

const stampOf = (refresh: RecordedRefresh): number => Date.parse(refresh.refreshed_at)

async function publish(
  kafka: KafkaConnection,
  publisher: Publisher,
  provider: string,
  refresh: RecordedRefresh,
): Promise<void> {
  const entries = Object.entries(refresh.prices).map(([name, price]) => ({
    name,
    itemId: undefined,
    price,
    quantity: 1,
  }))
  const records = refreshRecords(kafka.codec, refreshOf({ provider, observedAt: stampOf(refresh), entries }))
  for (let from = 0; from < records.length; from += 5_000) await publisher.send(records.slice(from, from + 5_000))
}

/** The changes that the refresh files call for: provider → item → texts in order. */
function expectedChanges(refreshes: RecordedRefresh[]): Map<number, string[]> {
  const ids = new Map(
    loadCatalog()
      .filter(item => item.phase === null)
      .map(item => [item.market_hash_name, item.item_id]),
  )
  const changes = new Map<number, string[]>()
  let listed = new Map<number, number>()
  for (const refresh of refreshes) {
    const now = new Map<number, number>()
    for (const [name, price] of Object.entries(refresh.prices)) {
      const id = ids.get(name)
      if (id !== undefined) now.set(id, Math.min(price, now.get(id) ?? Number.POSITIVE_INFINITY))
    }
    const record = (id: number, text: string): void => {
      changes.set(id, [...(changes.get(id) ?? []), `${refresh.refreshed_at} ${text}`])
    }
    for (const [id, price] of now) {
      const before = listed.get(id)
      if (before === undefined) record(id, `added ${price}`)
      else if (before !== price) record(id, `updated ${price} from ${before}`)
    }
    for (const [id, before] of listed) if (!now.has(id)) record(id, `removed from ${before}`)
    listed = now
  }
  return changes
}

describe('book on a real log', () => {
  const platform = useServers({ catalog: 'whole' })
  let kafka: KafkaConnection
  let publisher: Publisher

  before(async () => {
    kafka = platform.connect()
    publisher = await openPublisher(kafka, 'ingest')
  })
  after(() => publisher.close())

  it('publishes exactly the changes of a brute-force fold of real refreshes, in order per item', async () => {
    const refreshes = readRefreshes().slice(0, 4)
    for (const refresh of refreshes) await publish(kafka, publisher, 'provider_01', refresh)
    const roles = await platform.startRoles([startBook])
    const judged = await eventually(async () => {
      const verdicts = await readTopic(kafka, 'refreshes')
      return verdicts.length >= refreshes.length && verdicts
    }, 'the verdicts')
    expect(judged.map(({ value }) => value.verdict)).to.deep.equal(refreshes.map(() => 'applied'))

    const published = new Map<number, string[]>()
    for (const { event, value } of await readTopic(kafka, 'bookChanges')) {
      if (event !== 'BookChanged') continue
      const before = value.previous_micro_usd === null ? '' : ` from ${value.previous_micro_usd / 10_000}`
      const now = value.price === null ? '' : ` ${value.price}`
      const text = `${new Date(value.seen_at).toISOString()} ${value.change}${now}${before}`
      published.set(value.item_id, [...(published.get(value.item_id) ?? []), text])
    }
    const expected = expectedChanges(refreshes)
    expect(published.size).to.equal(expected.size)
    for (const [id, texts] of expected) expect(published.get(id)).to.deep.equal(texts)
    await roles.stop()
  })
})
