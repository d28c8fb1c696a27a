import { expect } from 'chai'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Outgoing } from '#infra/kafka/publisher.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { openTopicIds } from '#infra/kafka/topic-ids.ts'
import { openTransactionalProducer, type TransactionalProducer } from '#infra/kafka/transactional-producer.ts'
import { nextVersion } from '#infra/redis/guarded-write.ts'
import type { Redis } from '#infra/redis/redis.ts'
import type { TopicIds } from '#infra/runtime/role.ts'
import type { RefreshMarked, Side } from '#schemas/events/book-changed.ts'
import { type BookRefreshStored, bookRefreshStored } from '#schemas/events/book-state.ts'
import { ITEM_PARTITIONS, topics } from '#schemas/topics.ts'
import { findingsOf } from '#services/cli/log-tools/views.ts'
import { headKey } from '#streams/live-view/table.ts'
import { view } from '#streams/live-view/view.ts'
import { build } from '#streams/runner/build.ts'
import { redisVersions } from '#streams/runner/redis-store.ts'
import { newestKeyOf } from '#streams/runner/redis-versions.ts'
import {
  type BookRecord,
  changeOf,
  isChange,
  isOfRow,
  randomLog,
  urlChangeOf,
} from '#test/fixtures/book-change-sequences.ts'
import { expectedTables, readLiveHead, readTables } from '#test/fixtures/live-tables.ts'
import { openOwnSink } from '#test/fixtures/redis-views.ts'
import { changeRecord, write } from '#test/fixtures/sink-records.ts'
import { eventually } from '#test/harness/eventually.ts'
import { bookChangeRecord, bookRowRecord, changelogPartition, markerRecords } from '#test/harness/published-records.ts'
import { seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'

const NOT_SUSPECT = { suspect: null, suspect_count: null, suspect_since: null }
const partitions = Array.from({ length: ITEM_PARTITIONS }, (_, partition) => partition)

describe('live view sink', () => {
  const platform = useServers({ setUp: false })
  let redis: Redis
  const slot = (prefix: string) => ({ redis, partition: 0, prefix: platform.namespace + prefix })
  const open = (prefix: string) => openOwnSink(view, slot(prefix))
  before(async () => {
    redis = await platform.openRedis()
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

  const buildAll = (onProgress: (step: string) => void = () => undefined, isMissingOnly = false) =>
    build(redisVersions(view, platform.config), {
      config: platform.config,
      log: platform.log,
      onProgress,
      isMissingOnly,
      acceptLoss: false,
      signal: new AbortController().signal,
    })
  const dropHeads = () => redis.del(...partitions.map(partition => headKey(partition, platform.namespace)))
  const versions = () =>
    Promise.all(partitions.map(async each => (await readLiveHead(redis, each, platform.namespace)).version))
  const runRole = async (work: () => Promise<void> = async () => undefined) => {
    const roles = await platform.startRoles(['live-view'])
    await roles.ready()
    await work()
    await roles.stop()
    expect(roles.failures).to.deep.equal([])
  }

  it('is empty, with a head in every partition, before anything was published', async () => {
    await runRole()
    const topicId = await ids.idOf('bookChanges')
    for (const partition of partitions) {
      const { version, ...head } = await readLiveHead(redis, partition, platform.namespace)
      expect(version).to.be.above(0)
      expect(head).to.deep.equal({ format: 2, topicId, next: 0, ask: {}, bid: {} })
    }
  })

  it('follows the log, over a restart, which builds nothing', async () => {
    const before = await versions()
    const log = randomLog(seededRandom('log'), { records: 3_000, items: 200, providers: 12 })
    for (const half of [log.slice(0, 1_500), log.slice(1_500)]) {
      await publish(half)
      await runRole(caughtUp)
    }
    expect(await readTables(redis, platform.namespace)).to.deep.equal(expectedTables(published))
    expect(await versions()).to.deep.equal(before)
  })

  it('is built from the changelog when its heads are gone, and nothing is left of the version before', async () => {
    const before = await readTables(redis, platform.namespace)
    await holdBackOne()
    const [first = 0] = await versions()
    await dropHeads()
    await runRole()
    expect(await readTables(redis, platform.namespace)).to.deep.equal(before)
    expect((await versions())[0]).to.be.above(first)
  })

  it('is built by itself in a partition whose head is lost, or in another form, while the others stay as they are', async () => {
    const [lost, other] = [3, 5]
    const before = await versions()
    await runRole(async () => {
      await redis.del(headKey(lost, platform.namespace))
      const head = await readLiveHead(redis, other, platform.namespace)
      await redis.set(headKey(other, platform.namespace), JSON.stringify({ ...head, format: 1 }))
      const isBuilt = async () =>
        (await versions()).every((version, at) => (version !== before[at]) === [lost, other].includes(at))
      await eventually(() => isBuilt().catch(() => false), 'the two partitions')
    })
    expect(await readTables(redis, platform.namespace)).to.deep.equal(expectedTables(published))
  })

  it('is as it was where a build ends before its switch, and what that left is dropped by the next', async () => {
    const before = await versions()
    const stop = (step: string) => {
      if (step === 'switching') throw new Error('killed')
    }
    expect(await buildAll(stop).catch(({ message }: Error) => message)).to.equal('killed')
    expect(await versions()).to.deep.equal(before)
    const left = await readTables(redis, platform.namespace).catch(({ message }: Error) => message)
    expect(left).to.match(/is left over/)
    await buildAll()
    expect(await readTables(redis, platform.namespace)).to.deep.equal(expectedTables(published))
  })

  it('misses nothing that is published while it is built', async () => {
    await dropHeads()
    const log = randomLog(seededRandom('meanwhile'), {
      records: 400,
      items: 200,
      providers: 12,
      startMs: Date.UTC(2026, 6, 1),
    }).filter(r => !isChange(r) || r.change === 'added')
    let publishing: Promise<void> | undefined
    await buildAll(() => {
      publishing ??= publish(log)
    })
    await publishing
    await runRole(caughtUp)
    expect(await readTables(redis, platform.namespace)).to.deep.equal(expectedTables(published))
  })

  it('is built once by two at the same time', async () => {
    await dropHeads()
    const built = await Promise.all([1, 2].map(() => buildAll(undefined, true)))
    expect(built.filter(result => result !== undefined)).to.have.length(1)
    expect(await readTables(redis, platform.namespace)).to.deep.equal(expectedTables(published))
  })

  it('is not switched to a version that another build has overtaken', async () => {
    const before = await versions()
    let overtaking: Promise<unknown> | undefined
    const overtaken = buildAll(step => {
      if (step.startsWith('reading'))
        overtaking ??= Promise.all(
          partitions.map(partition => nextVersion(redis, newestKeyOf(view, { partition, prefix: platform.namespace }))),
        )
    })
    expect(await overtaken.catch((error: Error) => error.constructor.name)).to.equal('Conflict')
    await overtaking
    expect(await versions()).to.deep.equal(before)
    await buildAll()
  })

  it('is verified while another URL is in the log and not yet in the table', async () => {
    const row = changeOf({ provider: 'a', itemId: 7, after: { micro: 10_000, quantity: 1 }, seenAt: 1 })
    await publish([row])
    await runRole(caughtUp)
    await publish([urlChangeOf(row, 'https://m.example/c')])
    const { config, log } = platform
    const { compared, examples, not_compared } = await findingsOf(config, log, 'live-view', () => undefined)
    expect([compared > 0, examples, not_compared]).to.deep.equal([true, [], { 'came while they were compared': 1 }])
  })
})
