/**
 * The same log gives the same bytes: derived again from scratch, by other numbers of processes, in another time zone and language.
 *
 * A log of observations is copied byte for byte into another namespace; in each the roles derive everything from the beginning. Then the
 * derived topics are compared record by record, in bytes, and the tables and keys row by row. What several partitions of an input put into
 * one of an output has no order that the log would define: a record's key is its partition and the one that it stems from, and within that
 * its bytes must come in one order. Offsets, which count transaction markers, and the positions that a role notes for itself are left out.
 */
import { expect } from 'chai'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { openTopicCopy } from '#infra/kafka/publisher.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { PROVIDER_PARTITIONS, type TopicKey, topics } from '#schemas/topics.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { partitionOf } from '#schemas/values/partition.ts'
import { readTables } from '#test/fixtures/live-tables.ts'
import { healthKeyNow } from '#test/fixtures/redis-views.ts'
import { openSeededMarket } from '#test/fixtures/seeded-market.ts'
import { expectBalanced, type LedgerEntry, openLedger } from '#test/harness/ledger.ts'
import { ratesRecord, refreshRecords, saleRecord, sold } from '#test/harness/published-records.ts'
import { type ReadRecord, readTopic } from '#test/harness/read-topic.ts'
import { type SeededRandom, seededRandom } from '#test/harness/seeded-random.ts'
import type { TestPlatform } from '#test/harness/test-platform.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { readTableRows } from './view-ledgers.ts'

const INPUTS = ['fx', 'quotes', 'bids', 'sales'] as const satisfies TopicKey[]
const IS_LONG = process.env.FAULT === 'long'
const SIZE = {
  items: IS_LONG ? 400 : 150,
  askProviders: ['provider_01', 'provider_02', 'provider_03', 'provider_05', 'provider_07'],
  bidProviders: ['provider_02', 'provider_03'],
}
/** Of each feed, over some days, which begin elsewhere in the other zone. */
const [REFRESHES, MINUTES_APART] = IS_LONG ? [40, 180] : [12, 600]
const SALES = 60
const SINKS = ['history', 'candles', 'sales', 'provider-health', 'fx', 'live-view']

describe('the same log', function () {
  this.timeout(IS_LONG ? 900_000 : 240_000)
  const platforms = [useServers({ catalog: 'whole' }), useServers({ catalog: 'whole' })] as const

  before('a log and its copy', async () => {
    await writeInput(platforms[0], seededRandom('the same log'))
    await copyInput(platforms[0].connect(), platforms[1].connect())
  })

  it('gives the same topics, byte for byte, and the same rows, wherever it is run', async () => {
    const [here, there] = await Promise.all([
      derive(platforms[0], { TZ: 'UTC', LANG: 'C', LC_ALL: 'C' }, 1),
      derive(platforms[1], { TZ: 'America/New_York', LANG: 'tr_TR.UTF-8', LC_ALL: 'tr_TR.UTF-8' }, 2),
    ])
    expect(Object.keys(there)).to.deep.equal(Object.keys(here))
    const ledgers = Object.entries(here).map(([name, entries]) => [name, openLedger(entries, there[name] ?? [])])
    expectBalanced(Object.fromEntries(ledgers))
  })
})

/** Refreshes, rates and sales, and a last sound refresh of each feed. */
async function writeInput(platform: TestPlatform, random: SeededRandom): Promise<void> {
  const kafka = platform.connect()
  const { codec } = kafka
  const publisher = await platform.openPublisher(kafka, 'ingest')
  const feeds = openSeededMarket(random, { ...SIZE, minutesApart: MINUTES_APART })
  const today = Math.floor(Date.now() / DAY_MS) * DAY_MS
  await publisher.send(
    [2 * DAY_MS, DAY_MS, DAY_MS - 1].map((ago, at) => ratesRecord(codec, today - ago, { EUR: `0.92${at}` })),
  )
  // As they come in the log: mixed.
  for (const feed of random.shuffle(feeds.flatMap(feed => Array.from({ length: REFRESHES }, () => feed))))
    await publisher.send(refreshRecords(codec, feed.next()))
  const { items = [] } = feeds[0] ?? {}
  const sales = Array.from({ length: SALES }, (_, n) =>
    sold({
      provider: 'provider_12',
      market_hash_name: random.pick(items).name,
      sale_id: `${n}`,
      float: random.next(),
      price: random.integer(1, 90_000),
      currency: 'EUR',
      usd_rate: '0.9213',
      paint_seed: n,
      stickers: [],
      sold_at: today - random.integer(DAY_MS, 4 * DAY_MS),
      observed_at: today - DAY_MS,
    }),
  )
  await publisher.send(sales.map(sale => saleRecord(codec, sale)))
  for (const feed of feeds) await publisher.send(refreshRecords(codec, feed.last()))
}

/** Copies the inputs to another namespace, where a topic of the catalogue has one writer alone: by their full names. */
async function copyInput(from: KafkaConnection, to: KafkaConnection): Promise<void> {
  const reader = await openRangeReader(from, INPUTS.map(from.topicName))
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
  await platform.drained(['provisional-items', 'alert-triggers', 'alerts'])
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
