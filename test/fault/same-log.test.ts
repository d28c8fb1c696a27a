/**
 * The same log gives the same bytes: derived again from scratch, by other numbers of processes, in another time zone and language, over event
 * times that cross the changes of its clocks.
 *
 * A log of observations is copied byte for byte, with its append times, into another namespace; in each the roles derive everything from the
 * beginning. Then the derived topics are compared record by record, in bytes, and the tables and keys row by row. The changes of clocks lie
 * years ahead, and so do the append times. What several partitions of an input put into one of an output has no order that the log would
 * define: a record's key is its partition and the one that it stems from, and within that its bytes must come in one order. Offsets, which
 * count transaction markers, and the positions that a role notes for itself are left out.
 */
import { expect } from 'chai'
import { withAdmin } from '#infra/kafka/admin.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { groupByTopic, type Outgoing, openTopicCopy } from '#infra/kafka/publisher.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { setTopicSettings, type TopicSettings } from '#infra/kafka/topic-admin.ts'
import { PROVIDER_PARTITIONS, type TopicKey, topics } from '#schemas/topics.ts'
import { DAY_MS, HOUR_MS } from '#schemas/values/instant.ts'
import { partitionOf } from '#schemas/values/partition.ts'
import { readTables } from '#test/fixtures/live-tables.ts'
import { healthKeyNow } from '#test/fixtures/redis-views.ts'
import { type MarketItem, openSeededMarket } from '#test/fixtures/seeded-market.ts'
import { eventually } from '#test/harness/eventually.ts'
import { expectBalanced, type LedgerEntry, openLedger } from '#test/harness/ledger.ts'
import { ratesRecord, refreshRecords, saleRecord, sold } from '#test/harness/published-records.ts'
import { type ReadRecord, readTopic } from '#test/harness/read-topic.ts'
import { type SeededRandom, seededRandom } from '#test/harness/seeded-random.ts'
import type { TestPlatform } from '#test/harness/test-platform.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { readTableRows } from './view-ledgers.ts'

const ZONE = 'America/New_York'
/** When clocks change there in 2031. */
const CLOCK_CHANGES = [Date.UTC(2031, 2, 9, 7), Date.UTC(2031, 10, 2, 6)]
const BEFORE_MS = 3 * HOUR_MS
const TAKEN_AT = Date.UTC(2031, 10, 16)
const INPUTS = ['fx', 'quotes', 'bids', 'sales'] as const satisfies TopicKey[]
const IS_LONG = process.env.FAULT === 'long'
const SIZE = {
  items: IS_LONG ? 400 : 150,
  askProviders: ['provider_01', 'provider_02', 'provider_03', 'provider_05', 'provider_07'],
  bidProviders: ['provider_02', 'provider_03'],
}
/** Of each feed, around each change of clocks. */
const REFRESHES = IS_LONG ? 20 : 6
const SALES = 60
const SINKS = ['history', 'candles', 'sales', 'provider-health', 'fx', 'live-view']
const ANY_TIME = String(2n ** 63n - 1n)
/**
 * One after the other, each when the broker shows the one before. A broker shows a change just before its logs follow it, and it
 * begins with the next when that is done: the first holds for sure once the second is shown.
 */
const SETTINGS: readonly TopicSettings[] = [
  { 'message.timestamp.type': 'CreateTime', 'message.timestamp.after.max.ms': ANY_TIME },
  { 'message.timestamp.before.max.ms': ANY_TIME },
]
/** ConfigResource.Type of Kafka's protocol. */
const TOPIC_RESOURCE = 2

describe('the same log', function () {
  this.timeout(IS_LONG ? 900_000 : 240_000)
  const platforms = [useServers({ catalog: 'whole' }), useServers({ catalog: 'whole' })] as const

  before('a log and its copy', async () => {
    const [origin, copy] = platforms.map(platform => platform.connect()) as [KafkaConnection, KafkaConnection]
    await writeInput(origin, seededRandom('the same log'))
    await copyInput(origin, copy)
  })

  it('gives the same topics, byte for byte, and the same rows, wherever it is run', async () => {
    const [here, there] = await Promise.all([
      derive(platforms[0], { TZ: 'UTC', LANG: 'C', LC_ALL: 'C' }, 1),
      derive(platforms[1], { TZ: ZONE, LANG: 'tr_TR.UTF-8', LC_ALL: 'tr_TR.UTF-8' }, 2),
    ])
    expect(Object.keys(there)).to.deep.equal(Object.keys(here))
    const ledgers = Object.entries(here).map(([name, entries]) => [name, openLedger(entries, there[name] ?? [])])
    expectBalanced(Object.fromEntries(ledgers))
  })

  it('crosses the changes of clocks of the zone, in days that are others there', async () => {
    const times = (await readTopic(platforms[0].connect(), 'quotes')).map(({ value }) => value.observed_at as number)
    for (const change of CLOCK_CHANGES) {
      expect(times.some(time => time > change - HOUR_MS && time < change)).to.equal(true)
      expect(times.some(time => time >= change && time < change + HOUR_MS)).to.equal(true)
    }
    const dayIn = (timeZone: string) => (time: number) => new Date(time).toLocaleDateString('sv', { timeZone })
    expect(times.some(time => dayIn(ZONE)(time) !== dayIn('UTC')(time))).to.equal(true)
  })
})

/** Refreshes, rates and sales around each change of clocks, and a last sound refresh of each feed. */
async function writeInput(kafka: KafkaConnection, random: SeededRandom): Promise<void> {
  const { codec } = kafka
  const publisher = await openStampedPublisher(kafka, INPUTS)
  const send = (records: readonly Outgoing[]) => publisher.send(records, TAKEN_AT)
  const feeds = openSeededMarket(random, { ...SIZE, from: (CLOCK_CHANGES[0] as number) - BEFORE_MS, minutesApart: 90 })
  for (const change of CLOCK_CHANGES) {
    const midnight = Math.floor(change / DAY_MS) * DAY_MS
    await send([midnight - 1, midnight, change].map(at => ratesRecord(codec, at, { EUR: `0.92${at % 89}7` })))
    for (const feed of feeds) feed.skipTo(change - BEFORE_MS + random.integer(0, HOUR_MS))
    // As they come in the log: mixed.
    for (const feed of random.shuffle(feeds.flatMap(feed => Array.from({ length: REFRESHES }, () => feed))))
      await send(refreshRecords(codec, feed.next()))
    await send(salesAround(kafka, random, feeds[0]?.items ?? [], change))
  }
  for (const feed of feeds) await send(refreshRecords(codec, feed.last()))
  await publisher.close()
}

const salesAround = ({ codec }: KafkaConnection, random: SeededRandom, items: readonly MarketItem[], at: number) =>
  Array.from({ length: SALES }, (_, n) =>
    saleRecord(
      codec,
      sold({
        provider: 'provider_12',
        market_hash_name: random.pick(items).name,
        sale_id: `${at}-${n}`,
        price: random.integer(1, 90_000),
        currency: 'EUR',
        usd_rate: '0.9213',
        float: random.next(),
        paint_seed: n,
        stickers: [],
        sold_at: at + random.integer(-BEFORE_MS, BEFORE_MS),
        observed_at: at + DAY_MS,
      }),
    ),
  )

/** Copies the inputs to another namespace, where a topic of the catalogue has one writer alone: by their full names. */
async function copyInput(from: KafkaConnection, to: KafkaConnection): Promise<void> {
  const reader = await openRangeReader(from, INPUTS.map(from.topicName))
  // So that its topics keep the times as they come.
  await (await openStampedPublisher(to, INPUTS)).close()
  for (const key of INPUTS) {
    const topic = from.topicName(key)
    const copy = await openTopicCopy({ ...to, namespace: '' }, to.topicName(key), topics[key].partitions)
    const ranges = new Map<number, { from: number; to: number }>()
    for (let partition = 0; partition < topics[key].partitions; partition++)
      ranges.set(partition, { from: 0, to: await reader.stableEnd(topic, partition) })
    for await (const page of reader.range(topic, ranges)) await copy.send(page)
    await copy.close()
  }
  await reader.close()
}

/** Runs roles on a platform's log until they have reached its end; resolves with all that they have derived. */
async function derive(platform: TestPlatform, environment: Record<string, string>, books: number) {
  const names = [...Array.from({ length: books }, () => 'book'), SINKS.join(' ')]
  const running = await Promise.all(names.map(name => platform.spawnRole(name, environment)))
  await platform.drained(['book', ...SINKS])
  for (const role of running) await role.stop()
  const { namespace } = platform
  const redis = await platform.openRedis()
  const reader = platform.openTables()
  const derived: Record<string, LedgerEntry[]> = {}
  for (const [topic, sourceOf] of Object.entries(SOURCES) as [keyof typeof SOURCES, SourceOf][])
    derived[`topic ${topic}`] = entriesOf(await readTopic(platform.connect(), topic), sourceOf)
  for (const [table, entries] of Object.entries(await readTableRows(reader))) derived[`table ${table}`] = entries
  for (const table of ['sales', 'sales_by_time', 'fx_days']) {
    const rows = await reader.rows<Record<string, unknown>>(
      `SELECT * FROM ${reader.database}.${table} FINAL ORDER BY ALL`,
    )
    derived[`table ${table}`] = rows.map(row => ({ key: table, what: JSON.stringify(row) }))
  }
  const { rows, listed, refreshed } = await readTables(redis, namespace)
  derived['live rows'] = [...rows].map(([key, row]) => ({ key, what: JSON.stringify(row) }))
  derived['live listings'] = listed.map(key => ({ key, what: 'listed' }))
  derived['live refresh times'] = [...refreshed].map(([key, at]) => ({ key, what: String(at) }))
  derived['provider health'] = Object.entries(await redis.hgetall(await healthKeyNow(redis, namespace))).map(
    ([key, what]) => ({
      key,
      what,
    }),
  )
  return derived
}

/** Which partition of the input a derived record stems from. */
type SourceOf = (record: ReadRecord) => string

const ofProvider: SourceOf = ({ value }) => `${value.side}|${partitionOf(value.provider, PROVIDER_PARTITIONS)}`
const ofPartition: SourceOf = ({ value }) => `${value.group}|${value.topic}|${value.partition}`
const SOURCES = {
  bookChanges: ({ value }) => `${value.side}|${value.source_partition}`,
  book: () => 'its own',
  refreshes: ofProvider,
  quarantine: ofProvider,
  unresolved: ofPartition,
  deadLetters: ofPartition,
} as const satisfies Partial<Record<TopicKey, SourceOf>>

/** All but the positions that the runner notes with each transaction. */
const entriesOf = (records: readonly ReadRecord[], sourceOf: SourceOf): LedgerEntry[] =>
  records
    .filter(({ key }) => key !== 'position')
    .map(record => ({
      key: `${record.partition}|${sourceOf(record)}`,
      what: `${record.key} ${record.raw === null ? '-' : record.raw.toString('base64')}`,
    }))

/**
 * Publishes records with append times of the test's own, as brokers with other clocks would stamp them: its topics take the producer's time
 * from then on (CreateTime), whatever set-up has given them.
 */
async function openStampedPublisher(kafka: KafkaConnection, keys: readonly TopicKey[]) {
  await kafka.codec.prepare(keys.flatMap(key => [...topics[key].events]))
  for (const settings of SETTINGS) await applySettings(kafka, keys.map(kafka.topicName), settings)
  const producer = kafka.newClient('stamped').producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  const writers = keys.map(key => topics[key].writer)
  return {
    async send(records: readonly Outgoing[], appendedAt: number): Promise<void> {
      const timestamp = String(appendedAt)
      const topicMessages = groupByTopic(kafka, records, writers).map(({ topic, messages }) => ({
        topic,
        messages: messages.map(message => ({ ...message, timestamp })),
      }))
      await producer.sendBatch({ acks: -1, topicMessages })
    },
    close: () => producer.disconnect(),
  }
}

/** Sets settings of topics and waits until the broker shows them. */
async function applySettings(kafka: KafkaConnection, names: readonly string[], settings: TopicSettings): Promise<void> {
  await setTopicSettings(kafka, new Map(names.map(name => [name, settings])))
  const resources = names.map(name => ({ type: TOPIC_RESOURCE, name, configNames: Object.keys(settings) }))
  await withAdmin(kafka, admin => {
    const isShown = async () => {
      const described = await admin.describeConfigs({ resources, includeSynonyms: false })
      return described.resources.every(({ configEntries }) =>
        Object.entries(settings).every(([name, value]) =>
          configEntries.some(entry => entry.configName === name && entry.configValue === value),
        ),
      )
    }
    return eventually(isShown, 'the topics with times of their own')
  })
}
