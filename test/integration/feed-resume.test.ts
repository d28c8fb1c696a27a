/** What resumes within the log, through kills and on a moving market, is test/fault/feed.test.ts' matter. */
import { expect } from 'chai'
import { withAdmin } from '#infra/kafka/admin.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Redis } from '#infra/redis/redis.ts'
import { manifestKey, parseManifest } from '#streams/live-view/table.ts'
import { type FeedListeners, openFeedListeners } from '#test/fixtures/feed-listeners.ts'
import { firstItems, type MovingMarket, openMovingMarket } from '#test/fixtures/moving-market.ts'
import { eventually } from '#test/harness/eventually.ts'
import { seededRandom } from '#test/harness/seeded-random.ts'
import type { SseClient, SseEvent } from '#test/harness/sse-client.ts'
import { useServers } from '#test/harness/use-servers.ts'

const DROPS = 30

describe('a feed that resumes', () => {
  const platform = useServers()
  let kafka: KafkaConnection
  let market: MovingMarket
  let base: string
  let listeners: FeedListeners
  let redis: Redis

  before(async () => {
    kafka = platform.connect()
    redis = await platform.openRedis()
    const publisher = await platform.openPublisher(kafka, 'book')
    listeners = openFeedListeners(platform)
    const items = await firstItems(kafka, 200)
    market = openMovingMarket({ publisher, codec: kafka.codec, random: seededRandom('expired positions'), items })
    const roles = await platform.startRoles(['live-view', 'feed'])
    await roles.ready()
    base = roles.baseUrl
  })
  after(() => listeners?.close())

  const listen = (path: string, lastId?: string) => listeners.listen(base, path, lastId)
  const namesOf = ({ events }: SseClient) => events.map(({ event }) => event)
  const changedId = async (client: SseClient): Promise<string> =>
    (await client.event(({ event, id }) => event === 'prices.changed' && id !== undefined)).id ?? ''

  /** What was delivered of rows; a replay may deliver the rows of a refresh in another order. */
  const rowsOf = ({ events }: Pick<SseClient, 'events'>) =>
    events.flatMap(({ data }) => (data as { items?: { item_id: number }[] }).items ?? []).sort(byItem)
  const byItem = (a: { item_id: number }, b: { item_id: number }) => a.item_id - b.item_id

  /**
   * As retention does, and at once: the topic begins at its end of now, which the stored state has reached in each partition. `base` is
   * another gateway then, which has nothing older in its window.
   */
  async function dropTheLog(): Promise<void> {
    const topic = kafka.topicName('bookChanges')
    const isReached = () =>
      withAdmin(kafka, async admin => {
        const ends = await admin.fetchTopicOffsets(topic)
        const manifests = await redis.mget(ends.map(({ partition }) => manifestKey(partition, platform.namespace)))
        return ends.every(({ high }, at) => parseManifest(manifests[at] ?? '{}').next === Number(high))
      })
    await eventually(isReached, 'the state of what will be dropped')
    await withAdmin(kafka, async admin => {
      const ends = await admin.fetchTopicOffsets(topic)
      const partitions = ends.map(({ partition, high }) => ({ partition, offset: high }))
      await admin.deleteTopicRecords({ topic, partitions })
    })
    const gateway = await platform.startRoles(['feed'])
    await gateway.ready()
    base = gateway.baseUrl
  }

  it('loses nothing and repeats nothing when clients are cut off between `ready` and the first event', async () => {
    // A refresh in such a gap was lost for good: `ready` had no id to come back with.
    const witness = await listen('/feed/prices?resume=true')
    const received: SseEvent[] = []
    let id: string | undefined
    let unheard = 0
    for (let drop = 0; drop < DROPS; drop++) {
      const client = await listen('/feed/prices?resume=true', id)
      const ready = await client.event(({ event }) => event === 'ready')
      expect(ready.id, 'an id of ready').to.match(/^[\w-]{10,}$/)
      // By turns before, during and after the refresh. Before: the client has read `ready` and nothing that came after it.
      if (drop % 3 === 1) await Promise.all([market.refresh('ask'), client.close()])
      else if (drop % 3 === 2) {
        await market.refresh('ask')
        await changedId(client)
      }
      client.close()
      const read = drop % 3 === 0 ? [ready] : client.events
      received.push(...read)
      if (!read.some(({ event }) => event === 'prices.changed')) unheard += 1
      id = read.at(-1)?.id
      if (drop % 3 === 0) await market.refresh('ask')
    }
    const last = await listen('/feed/prices?resume=true', id)
    const all = () => ({ events: [...received, ...last.events] })
    await eventually(() => market.isUpToDate(witness, '/feed/prices'), 'the witness')
    await eventually(() => rowsOf(all()).length >= rowsOf(witness).length, 'all that was missed')
    expect(rowsOf(all())).to.deep.equal(rowsOf(witness))
    market.expectChain(all().events, { from: 'nothing' })
    expect(unheard, 'connections that ended before their first event').to.be.at.least(DROPS / 3)
    console.log(`      ${DROPS} drops, ${unheard} before the first event, ${market.changesOf('ask')} changes`)
  })

  it('sends the state again to a client that was cut off within it, and only then resumes behind it', async () => {
    await market.refreshes(5)
    const path = '/feed/prices?resume=true&snapshot=true'
    const plain = await listen('/feed/prices?snapshot=true')
    await plain.event(({ event }) => event === 'snapshot.end')
    const ids = plain.events.flatMap(({ id }) => id ?? [])
    expect(ids, 'ids without resume').to.deep.equal([])
    const first = await listen(path)
    const { id: readyId } = await first.event(({ event }) => event === 'ready')
    first.close()
    await market.refreshes(5)
    const client = await listen(path, readyId)
    const { id: endId } = await client.event(({ event }) => event === 'snapshot.end')
    expect(namesOf(client)).not.to.include('resync')
    await market.refreshes(5)
    await eventually(() => market.isUpToDate(client, path), 'the state of the market')
    market.expectChain(client.events, { from: 'state' })
    const behind = await listen(path, endId)
    await eventually(() => behind.events.length > 1, 'what followed the state')
    expect(namesOf(behind)).not.to.include('snapshot.end')
    // A client that asks for no state would miss what it was not sent.
    const changes = await listen('/feed/prices?resume=true', readyId)
    const { data } = await changes.event(({ event }) => event === 'resync')
    expect(data).to.deep.equal({ reason: 'unknown' })
  })

  it('receives resync with the reason, then live events that it can resume from, or the state and exactly what follows it', async () => {
    const first = await listen('/feed/prices?resume=true')
    await market.refresh('ask')
    const id = await changedId(first)
    first.close()

    const kept = await listen('/feed/prices?resume=true', id)
    await market.refresh('ask')
    await changedId(kept)
    expect(namesOf(kept), 'while the log holds it').not.to.include('resync')
    kept.close()

    await dropTheLog()
    const client = await listen('/feed/prices?resume=true', id)
    const { data, id: live } = await client.event(({ event }) => event === 'resync')
    expect(data).to.deep.equal({ reason: 'expired' })
    await market.refresh('ask')
    await changedId(client)
    expect(namesOf(client).slice(0, 3)).to.deep.equal(['ready', 'resync', 'prices.changed'])

    const again = await listen('/feed/prices?resume=true', live)
    await eventually(() => rowsOf(again).length >= rowsOf(client).length, 'what followed the resync')
    expect(namesOf(again)).not.to.include('resync')
    expect(rowsOf(again)).to.deep.equal(rowsOf(client))

    const path = '/feed/prices?resume=true&snapshot=true'
    const whole = await listen(path, id)
    await whole.event(({ event }) => event === 'snapshot.end')
    await market.refreshes(3)
    await eventually(() => market.isUpToDate(whole, path), 'the state of the market')
    expect(whole.events[1]).to.deep.include({ event: 'resync', data: { reason: 'expired' } })
    expect(namesOf(whole).filter(event => event === 'resync')).to.have.length(1)
    market.expectChain(whole.events, { from: 'state' })
  })
})
