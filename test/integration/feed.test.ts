/**
 * The role `feed` on real servers: what book writes to the log arrives at subscribers, whole, once and in
 * order, under the keys of Postgres and the names of the catalog.
 */
import { expect } from 'chai'
import type { connectKafka } from '#infra/kafka/connection.ts'
import type { Outgoing, Publisher } from '#infra/kafka/publisher.ts'
import { bookChangeRecord, changed, marked, markerRecords } from '#test/harness/published-records.ts'
import type { ExpectedChange } from '#test/harness/reference-fold.ts'
import { smallCatalog } from '#test/harness/small-catalog.ts'
import { openSse, type SseClient } from '#test/harness/sse-client.ts'
import type { StartedRoles } from '#test/harness/start-roles.ts'
import { useServers } from '#test/harness/use-servers.ts'

interface ChangedData {
  provider: string
  seen_at: string
  items: {
    item_id: number
    price: number | null
    qty: number
    change: string
    market_hash_name: string
    phase: string | null
  }[]
}

const dataOf = (client: SseClient): ChangedData[] =>
  client.events.filter(({ event }) => event !== 'ready').map(({ data }) => data as ChangedData)

describe('feed', () => {
  const platform = useServers()
  let roles: StartedRoles
  let publisher: Publisher
  const items = smallCatalog()
  let codec: ReturnType<typeof connectKafka>['codec']
  const clients: SseClient[] = []

  before(async () => {
    const kafka = platform.connect()
    codec = kafka.codec
    publisher = await platform.openPublisher(kafka, 'book')
    roles = await platform.startRoles(['feed'])
    await roles.ready()
  })

  after(() => {
    for (const client of clients) client.close()
  })

  const listen = async (path: string, key?: string) => {
    const client = await openSse(roles.baseUrl + path, { key: key ?? (await platform.newKey()) })
    clients.push(client)
    expect(client.status).to.equal(200)
    await client.event(({ event }) => event === 'ready')
    return client
  }
  /** A refresh as the book publishes it: its changes, then its marker in every partition. */
  const refreshOf = (changes: ExpectedChange[], members: Parameters<typeof marked>[0]): Outgoing[] => [
    ...changes.map(change => bookChangeRecord(codec, changed(change))),
    ...markerRecords(codec, marked(members)),
  ]

  it('delivers a refresh in one event, whatever partitions it is spread over', async () => {
    const client = await listen('/feed/prices')
    const some = items.slice(0, 40)
    const about = { provider: 'provider_01', refresh_id: 'one', seen_at: 1_772_573_670_549 }
    const changes = some.map(({ item_id }) => changed({ ...about, item_id, price_micro_usd: item_id * 10_000 + 5_000 }))
    await publisher.send(refreshOf(changes, { ...about, last_updated: about.seen_at }))
    await client.event(({ event }) => event === 'prices.changed')
    const [data, ...more] = dataOf(client)
    expect(more).to.deep.equal([])
    expect(data).to.deep.include({ provider: 'provider_01', seen_at: '2026-03-03T21:34:30.549Z' })
    const expected = some.map(({ item_id, market_hash_name, phase }) => ({
      item_id,
      market_hash_name,
      phase,
      price: item_id + 1,
      qty: 1,
      change: 'added',
    }))
    expect(data?.items.sort((a, b) => a.item_id - b.item_id)).to.deep.equal(expected)
  })

  it('sends bids to the bids feed, to each filter what it names, and a pushed change without a marker', async () => {
    const phased = items.filter(({ phase }) => phase !== null)
    const [first, second] = phased.filter(one => one.market_hash_name === '★ Karambit | Doppler (Factory New)')
    const other = items.find(({ phase }) => phase === null)
    if (!first || !second || !other) throw new Error('the catalog has no phased finish')
    const name = encodeURIComponent(first.market_hash_name)
    const byName = await listen(`/feed/bids?market_hash_names=${name}`)
    const byId = await listen(`/v1/feed/bids?item_ids=${second.item_id}&item_ids=${other.item_id}`)
    const elsewhere = await listen('/feed/bids?providers=provider_03')
    const prices = await listen('/feed/prices')
    const about = { side: 'bid' as const, provider: 'provider_02', refresh_id: 'bids', seen_at: 2_000 }
    const changes = [first, second, other].map(({ item_id }) => changed({ ...about, item_id }))
    await publisher.send(refreshOf(changes, { ...about, last_updated: 2_000 }))
    for (const client of [byName, byId]) await client.event(({ event }) => event === 'bids.changed')
    const idsOf = (client: SseClient) =>
      dataOf(client)
        .flatMap(data => data.items.map(item => item.item_id))
        .sort()
    expect(idsOf(byName)).to.deep.equal([first.item_id, second.item_id].sort())
    expect(idsOf(byId)).to.deep.equal([second.item_id, other.item_id].sort())
    // Pushed, so without a marker.
    const later = { provider: 'provider_03', refresh_id: null, seen_at: 2_500 }
    await publisher.send((['bid', 'ask'] as const).map(side => bookChangeRecord(codec, changed({ ...later, side }))))
    await elsewhere.event(({ event }) => event === 'bids.changed')
    await prices.event(({ event }) => event === 'prices.changed')
    for (const client of [elsewhere, prices]) {
      expect(dataOf(client).map(({ provider }) => provider)).to.deep.equal(['provider_03'])
    }
  })

  it('leaves out a record that it cannot read, counts it, and goes on', async () => {
    const client = await listen('/feed/prices?providers=provider_06')
    await publisher.send([{ topic: 'bookChanges', key: '1', partition: 0, value: Buffer.from('poison') }])
    const about = { provider: 'provider_06', refresh_id: 'after', seen_at: 4_000 }
    await publisher.send(refreshOf([changed(about)], { ...about, last_updated: 4_000 }))
    await client.event(({ event }) => event === 'prices.changed')
    expect(await roles.metrics.registry.getSingleMetricAsString('feed_undecodable_total')).to.match(/_total 1$/m)
    expect(roles.failures).to.deep.equal([])
  })
})
