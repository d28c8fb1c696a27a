/** Rows are written by the live view's own sink, changes by the book's publisher; only the moments are the test's. */
import { expect } from 'chai'
import { loadProviders } from '#infra/config/providers.ts'
import { loadSupply } from '#infra/config/supply.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Redis } from '#infra/redis/redis.ts'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { type LiveReader, openLiveReader } from '#streams/live-view/reader.ts'
import { headKey } from '#streams/live-view/table.ts'
import { view as liveView } from '#streams/live-view/view.ts'
import { Board } from '#streams/market-summary/board.ts'
import { followMarket } from '#streams/market-summary/follow-market.ts'
import { computedLeaseKey } from '#streams/runner/computed-versions.ts'
import { headAt } from '#streams/runner/redis-versions.ts'
import { makeVersion, openOwnSink } from '#test/fixtures/redis-views.ts'
import { changeRecord, positionAt } from '#test/fixtures/sink-records.ts'
import { openTestIngest } from '#test/fixtures/test-ingest.ts'
import { eventually } from '#test/harness/eventually.ts'
import { bookChangeRecord, changed } from '#test/harness/published-records.ts'
import { smallCatalog } from '#test/harness/small-catalog.ts'
import { useServers } from '#test/harness/use-servers.ts'

const ITEM = 7
const STAYING = 8
const PARTITION = partitionOfItem(ITEM)
const KEYS = { ask: ['p'], bid: ['p'] }
const LATEST = ITEM_PARTITIONS - 1
/** The summary is computed every ten seconds, twice where the refresh came within the first. */
const SUMMARY_LIMIT_MS = 150_000

/** Of the answers of the market's routes, what the test looks at. */
interface Figures {
  items: { summary: { best_ask_usd: string | null } }[]
}

const removed: Partial<BookChanged> = { change: 'removed', price: null, price_micro_usd: null, quantity: 0 }

describe('the market in memory', () => {
  const platform = useServers()
  let redis: Redis
  let kafka: KafkaConnection
  const stop = new AbortController()

  before(async () => {
    redis = await platform.openRedis()
    kafka = platform.connect('book')
  })
  after(() => stop.abort())

  /** Writes the head of a partition without rows. */
  const openPartition = (partition: number, prefix: string) => makeVersion(liveView, { redis, partition, prefix })

  const follow = async (scan: LiveReader['scan']): Promise<Board> => {
    const board = new Board(KEYS)
    await followMarket(board, { kafka, live: { scan }, log: platform.log, signal: stop.signal })
    return board
  }

  const quoted = (board: Board): number[] =>
    [...board.inOrder()].filter(slot => (board.sides.ask.microUsd[slot] as number) > 0).map(slot => board.itemId(slot))

  it('used to keep a quote that was taken back between two fillings, since no later change takes it out', async () => {
    const prefix = `${platform.namespace}again.`
    const log = [changed({ item_id: ITEM }), changed({ item_id: ITEM, ...removed }), changed({ item_id: STAYING })]
    const publisher = await platform.openPublisher(kafka, 'book')
    await publisher.send(log.map(change => bookChangeRecord(kafka.codec, change)))
    for (let partition = 0; partition < LATEST; partition++) {
      if (partition !== PARTITION) await openPartition(partition, prefix)
    }
    const sink = await openOwnSink(liveView, { redis, partition: PARTITION, prefix })
    sink.apply(changeRecord(changed({ item_id: ITEM }), 0, PARTITION))
    await sink.flush(positionAt(1))
    const live = openLiveReader(redis, prefix, KEYS)
    let fillings = 0
    const board = await follow(async (partition, taker) => {
      const head = await live.scan(partition, taker)
      if (partition !== LATEST || head !== undefined) return head
      fillings += 1
      sink.apply(changeRecord(changed({ item_id: ITEM, ...removed }), 1, PARTITION))
      await sink.flush(positionAt(2))
      await openPartition(LATEST, prefix)
      return undefined
    })
    expect({ fillings, quoted: quoted(board) }).to.deep.equal({ fillings: 1, quoted: [STAYING] })
  })

  it('used to keep rows of a version that a rebuild replaced while they were read', async () => {
    const prefix = `${platform.namespace}switched.`
    for (let partition = 0; partition < ITEM_PARTITIONS; partition++) {
      if (partition !== PARTITION) await openPartition(partition, prefix)
    }
    const sink = await openOwnSink(liveView, { redis, partition: PARTITION, prefix })
    sink.apply(changeRecord(changed({ item_id: ITEM }), 0, PARTITION))
    await sink.flush(positionAt(2))
    const live = openLiveReader(redis, prefix, KEYS)
    const switches: Promise<unknown>[] = []
    const board = await follow((partition, { begin, take }) =>
      live.scan(partition, {
        begin,
        take: (...row) => {
          take(...row)
          // On the reader's own connection, so it is answered before the head is read again.
          const head = JSON.stringify(headAt(liveView, 2, positionAt(2), { ask: {}, bid: {} }))
          if (switches.length === 0) switches.push(redis.set(headKey(PARTITION, prefix), head))
        },
      }),
    )
    await Promise.all(switches)
    expect({ switches: switches.length, quoted: quoted(board) }).to.deep.equal({ switches: 1, quoted: [STAYING] })
  })
})

describe('a market that fills', () => {
  const platform = useServers()

  it('is not there before it has prices, nor its index before an item has both sides; it used to be nulls and 0.00', async () => {
    const below = await platform.startRoles([
      ...(['fx', 'provider-health', 'history', 'candles', 'sales', 'live-view', 'book'] as const),
    ])
    const ingest = await openTestIngest(platform.connect('ingest'))
    await ingest.publishRates()
    await below.ready()
    await platform.drained(['alert-triggers', 'provisional-items'])
    const roles = await platform.startRoles(['market-summary', 'api'])
    const headers = { authorization: `Bearer ${await platform.newKey()}` }
    const get = async (path: string) => {
      const answer = await fetch(`${roles.baseUrl}/v1/market/${path}`, { headers })
      return { status: answer.status, body: await answer.json() }
    }
    /** The first answer with figures. */
    const first = (path: string) =>
      eventually(
        async () => {
          const { status, body } = await get(path)
          return status === 200 && (body as { data: Figures }).data
        },
        path,
        SUMMARY_LIMIT_MS,
      )
    const redis = await platform.openRedis()
    await eventually(
      () => redis.exists(computedLeaseKey('market-summary', platform.namespace)),
      'a process that computes',
    )
    for (const path of ['items', 'indexes', 'arbitrage']) expect((await get(path)).status, path).to.equal(503)

    const provider = loadProviders().bidKeys[0] ?? expect.fail('no provider has bids')
    // Loaded once: for each item it held the roles of this process up until their requests timed out.
    const supply = loadSupply()
    const entries = smallCatalog()
      .filter(item => item.phase === null && supply.has(item.item_id))
      .map(item => ({ market_hash_name: item.market_hash_name, price: 1_000, quantity: 3 }))
    await ingest.publish({ provider, side: 'ask', observedAt: Date.now(), currency: 'USD', entries })
    const { items } = await first('items')
    expect(items.filter(({ summary }) => summary.best_ask_usd === '10.00')).not.to.deep.equal([])
    await first('arbitrage')
    expect((await get('indexes')).status).to.equal(503)
    await ingest.close()
    await roles.stop()
    await below.stop()
  })
})
