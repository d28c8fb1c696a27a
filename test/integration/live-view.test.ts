/** The live view in a real Redis, from a real log: always equal to a plain fold of what was published. */
import { expect } from 'chai'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Outgoing } from '#infra/kafka/publisher.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { openTopicIds } from '#infra/kafka/topic-ids.ts'
import { openTransactionalProducer, type TransactionalProducer } from '#infra/kafka/transactional-producer.ts'
import { Fenced } from '#infra/redis/guarded-write.ts'
import type { Redis } from '#infra/redis/redis.ts'
import type { TopicIds } from '#infra/runtime/role.ts'
import type { RefreshMarked, Side } from '#schemas/events/book-changed.ts'
import { type BookRefreshStored, bookRefreshStored } from '#schemas/events/book-state.ts'
import { ITEM_PARTITIONS, topics } from '#schemas/topics.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { findingsOf } from '#services/cli/log-tools/verify.ts'
import { start as startLiveView } from '#streams/live-view/main.ts'
import { deleteLeftovers, openTable } from '#streams/live-view/open-table.ts'
import { openRebuilder } from '#streams/live-view/rebuild.ts'
import { openLiveSink, readHead, writeHead } from '#streams/live-view/sink.ts'
import { generationsKey, headKey, itemKey, rebuildKey } from '#streams/live-view/table.ts'
import {
  type BookRecord,
  changeOf,
  isChange,
  isOfRow,
  randomLog,
  urlChangeOf,
} from '#test/fixtures/book-change-sequences.ts'
import { expectedTables, readLiveHead, readTables } from '#test/fixtures/live-tables.ts'
import { changeRecord, positionAt, write } from '#test/fixtures/sink-records.ts'
import { eventually } from '#test/harness/eventually.ts'
import { bookChangeRecord, bookRowRecord, changelogPartition, markerRecords } from '#test/harness/published-records.ts'
import { seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'

const NOT_SUSPECT = { suspect: null, suspect_count: null, suspect_since: null }
const partitions = Array.from({ length: ITEM_PARTITIONS }, (_, partition) => partition)

describe('live view sink', () => {
  const platform = useServers({ setUp: false })
  let redis: Redis
  const slot = (prefix: string) => ({ partition: 0, prefix: platform.namespace + prefix })
  const open = async (prefix: string) => {
    const found =
      (await readHead(redis, slot(prefix))) ??
      (await writeHead(redis, slot(prefix), null, { generation: 1, ...positionAt(0), ask: {}, bid: {} }))
    return openLiveSink(redis, slot(prefix), found)
  }
  const ownLog = (seed: ReturnType<typeof seededRandom>, records: number) =>
    randomLog(seed, { records, items: 60, providers: 5 }).filter(r => !isOfRow(r) || partitionOfItem(r.item_id) === 0)

  before(async () => {
    redis = await platform.openRedis()
  })

  it('shows what a plain fold shows, however the log is cut and wherever the sink is reopened', async () => {
    const random = seededRandom('cuts')
    const log = ownLog(random, 4_000)
    let sink = await open('cuts.')
    for (let at = 0; at < log.length; ) {
      const next = Math.min(log.length, at + random.integer(1, 90))
      await write(
        sink,
        log.slice(at, next).map((record, i) => changeRecord(record, at + i)),
      )
      at = next
      if (!random.chance(0.3)) continue
      await sink.close()
      sink = await open('cuts.')
      expect(sink.position?.next).to.equal(at)
    }
    await sink.close()
    expect(await readTables(redis, slot('cuts.').prefix)).to.deep.equal(expectedTables(log, [0]))
  })

  it('takes more rows of one provider at once than one call of the script may hold', async () => {
    const log = Array.from({ length: 9_000 }, (_, itemId) =>
      changeOf({ provider: 'a', itemId, after: { micro: 10_000, quantity: 1 }, seenAt: 1 }),
    )
    await write(
      await open('many.'),
      log.map((change, offset) => changeRecord(change, offset)),
    )
    const { rows, listed } = await readTables(redis, slot('many.').prefix)
    expect([rows.size, listed.length]).to.deep.equal([9_000, 9_000])
  })

  for (const { name, isHeld, kept } of [
    { name: 'those of the head alone while no rebuild goes on', isHeld: false, kept: [3] },
    { name: 'those of a rebuild that goes on too', isHeld: true, kept: [3, 4] },
  ])
    it(`keeps of the rows of all generations ${name}`, async () => {
      const { partition, prefix } = slot(`left-${isHeld}.`)
      await writeHead(redis, { partition, prefix }, null, { generation: 3, ...positionAt(0), ask: {}, bid: {} })
      await redis.set(generationsKey(partition, prefix), 4)
      if (isHeld) await redis.set(rebuildKey(partition, prefix), 'a rebuild')
      const keyOf = (generation: number) => itemKey(partition, generation, 'ask', 1, prefix)
      for (const generation of [2, 3, 4]) await redis.hset(keyOf(generation), 'provider_01', '1|10000|1|1|USD')
      expect(await deleteLeftovers(redis, { partition, prefix })).to.equal(3 - kept.length)
      const left = await Promise.all([2, 3, 4].map(async each => ((await redis.exists(keyOf(each))) ? [each] : [])))
      expect(left.flat()).to.deep.equal(kept)
    })

  it('makes a dead letter of a record that no store can hold', async () => {
    const sink = await open('poison.')
    const poisoned = changeOf({ provider: 'a', itemId: -5, after: { micro: 1, quantity: 1 }, seenAt: 1 })
    expect(sink.apply(changeRecord(poisoned, 0))).to.include({ kind: 'deadLetter', reason: 'item_out_of_range' })
    await sink.close()
  })
})

describe('live view on a log', () => {
  const platform = useServers()
  let kafka: KafkaConnection
  let book: TransactionalProducer
  let ids: TopicIds
  let redis: Redis
  const published: BookRecord[] = []

  before(async () => {
    kafka = platform.connect('book')
    await kafka.codec.prepare([...topics.bookChanges.events, ...topics.book.events])
    book = await openTransactionalProducer(kafka, { transactionalId: 'live-view-test', writers: ['book'] })
    ids = openTopicIds(kafka)
    redis = await platform.openRedis()
  })
  after(async () => {
    await ids.close()
    await book.close()
  })

  /** The last refresh of a provider, as the changelog has it. */
  const refreshStored = (side: Side, provider: string, stored: BookRefreshStored): Outgoing => ({
    topic: 'book',
    partition: changelogPartition(side, provider),
    key: `refresh|${provider}`,
    value: kafka.codec.encode(bookRefreshStored, stored),
  })

  /**
   * Publishes as the book does, in one transaction: the change or marker, and the row or refresh of the changelog. Outside of
   * one a rebuild may read between the two, and miss the row.
   */
  async function publish(log: readonly BookRecord[]): Promise<void> {
    const records = log.flatMap((record): Outgoing[] => {
      if (isOfRow(record)) return [bookChangeRecord(kafka.codec, record), bookRowRecord(kafka.codec, record)]
      const { side, provider, refresh_id, last_updated: observed_at } = record
      const stored = { refresh_id, observed_at, currency: 'USD', ...NOT_SUSPECT, applied_at: observed_at }
      return [...markerRecords(kafka.codec, record), refreshStored(side, provider, stored)]
    })
    await book.commit(records)
    published.push(...log)
  }

  /** A refresh that is judged and held back: the one before it is still the last that moved rows. */
  async function holdBackOne(): Promise<void> {
    const last = published.findLast(record => !isOfRow(record)) as RefreshMarked
    await book.commit([
      refreshStored(last.side, last.provider, {
        refresh_id: 'held back',
        observed_at: last.last_updated + 60_000,
        currency: 'USD',
        suspect: 'glitch',
        applied_at: last.last_updated,
        suspect_count: 1,
        suspect_since: last.last_updated + 60_000,
      }),
    ])
  }

  async function caughtUp(): Promise<void> {
    const topic = kafka.topicName('bookChanges')
    const reader = await openRangeReader(kafka, [topic])
    for (const partition of partitions) {
      const end = await reader.end(topic, partition)
      await eventually(
        async () => (await readLiveHead(redis, partition, platform.namespace)).next >= end,
        `partition ${partition} to reflect ${end}`,
      )
    }
    await reader.close()
  }

  const openOwnRebuilder = async () => {
    const reader = await openRangeReader(kafka, [kafka.topicName('bookChanges'), kafka.topicName('book')])
    return { reader, ...openRebuilder({ kafka, reader, ids, redis, prefix: platform.namespace }) }
  }

  it('is empty, with a head in every partition, before anything was published', async () => {
    const roles = await platform.startRoles([startLiveView])
    await roles.ready()
    await roles.stop()
    const topicId = await ids.idOf('bookChanges')
    for (const partition of partitions) {
      expect(await readLiveHead(redis, partition, platform.namespace)).to.deep.equal({
        format: 1,
        generation: 1,
        topicId,
        next: 0,
        ask: {},
        bid: {},
      })
    }
  })

  it('follows the log, over a restart', async () => {
    const log = randomLog(seededRandom('log'), { records: 3_000, items: 200, providers: 12 })
    for (const half of [log.slice(0, 1_500), log.slice(1_500)]) {
      await publish(half)
      const roles = await platform.startRoles([startLiveView])
      await caughtUp()
      await roles.stop()
      expect(roles.failures).to.deep.equal([])
    }
    expect(await readTables(redis, platform.namespace)).to.deep.equal(expectedTables(published))
  })

  it('is rebuilt from the changelog when its heads are gone, and nothing is left of the old table', async () => {
    const before = await readTables(redis, platform.namespace)
    await holdBackOne()
    await redis.del(...partitions.map(partition => headKey(partition, platform.namespace)))
    const roles = await platform.startRoles([startLiveView])
    await roles.ready()
    await roles.stop()
    expect(await readTables(redis, platform.namespace)).to.deep.equal(before)
    expect((await readLiveHead(redis, 0, platform.namespace)).generation).to.be.above(1)
  })

  it('shows no head before the last row of a rebuild is in place, and misses nothing that is published meanwhile', async () => {
    await redis.del(...partitions.map(partition => headKey(partition, platform.namespace)))
    const { reader, ...rebuilder } = await openOwnRebuilder()
    const rebuilding = Promise.all(partitions.map(partition => rebuilder.rebuild(partition)))
    await publish(
      randomLog(seededRandom('meanwhile'), {
        records: 400,
        items: 200,
        providers: 12,
        startMs: Date.UTC(2026, 6, 1),
      }).filter(r => !isChange(r) || r.change === 'added'),
    )
    const heads = await rebuilding
    await reader.close()
    expect(await redis.exists(headKey(3, platform.namespace))).to.equal(0)
    expect(await redis.keys(`${platform.namespace}{live:3}:${heads[3]?.generation}:*`)).not.to.deep.equal([])
    for (const partition of partitions) {
      const head = heads[partition] ?? expect.fail('no head')
      await writeHead(redis, { partition, prefix: platform.namespace }, null, head)
    }
    const roles = await platform.startRoles([startLiveView])
    await caughtUp()
    await roles.stop()
    expect(await readTables(redis, platform.namespace)).to.deep.equal(expectedTables(published))
  })

  it('is built once when another owner was quicker: the slower one is refused', async () => {
    const slot = { partition: 3, prefix: platform.namespace }
    await redis.del(headKey(slot.partition, slot.prefix))
    const { reader, rebuild } = await openOwnRebuilder()
    const overtaken = async (partition: number) => {
      await openTable({ ...sources, rebuilder: { rebuild } }, slot)
      return rebuild(partition)
    }
    const sources = { redis, faultOf: async () => undefined }
    expect(
      await openTable({ ...sources, rebuilder: { rebuild: overtaken } }, slot).catch(error => error),
    ).to.be.instanceOf(Fenced)
    expect(await readTables(redis, slot.prefix)).to.deep.equal(expectedTables(published))
    const opened = await openTable({ ...sources, rebuilder: { rebuild } }, slot)
    expect(opened).to.include({ rebuiltFor: undefined, deleted: 0 })
    await reader.close()
  })

  it('is verified while another URL is in the log and not yet in the table', async () => {
    const row = changeOf({ provider: 'a', itemId: 7, after: { micro: 10_000, quantity: 1 }, seenAt: 1 })
    await publish([row])
    const roles = await platform.startRoles([startLiveView])
    await caughtUp()
    await roles.stop()
    await publish([urlChangeOf(row, 'https://m.example/c')])
    const { compared, examples } = await findingsOf(platform.config, platform.log, 'live-view', () => undefined)
    expect([compared > 0, examples]).to.deep.equal([true, []])
  })

  it('is rebuilt when the log that it had followed was replaced by a shorter one', async () => {
    const { head, text } =
      (await readHead(redis, { partition: 5, prefix: platform.namespace })) ?? expect.fail('no head')
    await writeHead(redis, { partition: 5, prefix: platform.namespace }, text, { ...head, next: 10 ** 9 })
    const roles = await platform.startRoles([startLiveView])
    await roles.ready()
    await caughtUp()
    await roles.stop()
    expect(await readTables(redis, platform.namespace)).to.deep.equal(expectedTables(published))
  })
})
