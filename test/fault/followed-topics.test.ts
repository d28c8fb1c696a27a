/**
 * Topics that a process keeps in memory, or whose positions it hands out, deleted and created again while it runs.
 *
 * What used to happen: their readers waited at offsets of the topic before, or went on in the middle of the new one.
 */
import { expect } from 'chai'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { topics } from '#schemas/topics.ts'
import { recreateTopic } from '#test/fixtures/changed-topics.ts'
import { type FeedListeners, openFeedListeners } from '#test/fixtures/feed-listeners.ts'
import { eventually } from '#test/harness/eventually.ts'
import { bookChangeRecord, changed } from '#test/harness/published-records.ts'
import type { StartedRoles } from '#test/harness/start-roles.ts'
import { useServers } from '#test/harness/use-servers.ts'

const KEPT = ['catalog', 'provisionalItems', 'fx', 'alertRules', 'bookChanges'] as const

describe('topics that processes keep in memory', () => {
  const platform = useServers()
  let kafka: KafkaConnection
  let listeners: FeedListeners
  let roles: StartedRoles

  before(async () => {
    kafka = platform.connect()
    listeners = openFeedListeners(platform)
    roles = await platform.startRoles(['feed', 'alert-triggers'])
  })
  after(() => listeners.close())

  async function publish(count: number): Promise<void> {
    const book = await platform.openPublisher(kafka, 'book')
    const records = Array.from({ length: count }, (_, at) => changed({ item_id: 7, price: 100 + at, refresh_id: null }))
    await book.send(records.map(record => bookChangeRecord(kafka.codec, record)))
    await book.close()
  }
  const listen = (lastId?: string) => listeners.listen(roles.baseUrl, '/feed/prices?resume=true', lastId)

  it('end it when they are created again, and streams that come back are told', async () => {
    const client = await listen()
    await publish(1)
    const { id } = await client.event(({ event }) => event === 'prices.changed')
    client.close()
    for (const topic of KEPT) await recreateTopic(platform, kafka, topic)
    for (const said of KEPT.map(topic => new RegExp(`^${topics[topic].name} was deleted`))) {
      roles.expectFailure(said)
      await eventually(() => roles.failures.some(({ message }) => said.test(message)), `${said}`)
    }
    await publish(3)
    await roles.stop()
    roles = await platform.startRoles(['feed', 'alert-triggers'])
    const resumed = await listen(id)
    expect((await resumed.event(({ event }) => event === 'resync')).data).to.deep.equal({ reason: 'unknown' })
  })
})
