/**
 * Topics that are no longer what their readers have read: deleted and created again, cut short, expired, and what is said of it.
 *
 * What used to happen: the book answered "done" for every offset below its own, so all that was published into the new topic was
 * swallowed while old prices were served, and `marketlog lag --wait` ended with 0; a view whose position was beyond the log's end committed
 * it and looked healthy; readers without a group waited at offsets of the topic before, or went on in the middle of the new one.
 */
import { expect } from 'chai'
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import { positionStored } from '#schemas/events/position-stored.ts'
import { PROVIDER_PARTITIONS, type TopicKey, topics } from '#schemas/topics.ts'
import { DAY_MS, HOUR_MS } from '#schemas/values/instant.ts'
import { partitionOf } from '#schemas/values/partition.ts'
import { openFxReader } from '#streams/fx/reader.ts'
import { readStoredViews } from '#streams/runner/table-versions.ts'
import { openWholeTables } from '#streams/runner/whole-tables.ts'
import { expireRecords, recreateTopic } from '#test/fixtures/changed-topics.ts'
import { type FeedListeners, openFeedListeners } from '#test/fixtures/feed-listeners.ts'
import { eventually } from '#test/harness/eventually.ts'
import { bookChangeRecord, changed, ratesRecord, refreshOf, refreshRecords } from '#test/harness/published-records.ts'
import { readTopic } from '#test/harness/read-topic.ts'
import { smallCatalog } from '#test/harness/small-catalog.ts'
import type { StartedRoles } from '#test/harness/start-roles.ts'
import { useServers } from '#test/harness/use-servers.ts'

const ITEMS = smallCatalog()
  .filter(({ phase }) => phase === null)
  .slice(0, 20)
const PROVIDER = 'provider_01'
const PARTITION = partitionOf(PROVIDER, PROVIDER_PARTITIONS)
/** Those that do not run here. */
/** Topics that processes keep in memory, or whose positions they hand out. */
const KEPT = ['catalog', 'provisionalItems', 'fx', 'alertRules', 'bookChanges'] as const

describe('topics that are no longer what they were', () => {
  const platform = useServers()
  let kafka: KafkaConnection
  let tables: ClickhouseReader
  let roles: StartedRoles
  let listeners: FeedListeners
  let hour = 0
  let asOf = (Math.floor(Date.now() / DAY_MS) - 1) * DAY_MS

  before(async () => {
    kafka = platform.connect()
    tables = platform.openTables()
    roles = await platform.startRoles(['book', 'fx'])
    listeners = openFeedListeners(platform)
  })
  after(() => listeners?.close())

  async function publish(price: number, refreshes = 1): Promise<void> {
    const ingest = await platform.openPublisher(kafka, 'ingest')
    for (let round = 0; round < refreshes; round++) {
      hour += 1
      const entries = ITEMS.map(({ market_hash_name: name, item_id: itemId }) => {
        return { name, phase: null, itemId, price: price + round, quantity: 1 }
      })
      const observedAt = Date.UTC(2026, 2, 3) + hour * HOUR_MS
      await ingest.send(refreshRecords(kafka.codec, refreshOf({ provider: PROVIDER, observedAt, entries })))
    }
    await ingest.close()
  }

  async function price(): Promise<number | null | undefined> {
    const changes: BookChanged[] = (await readTopic(kafka, 'bookChanges'))
      .filter(({ event, value }) => event === 'BookChanged' && value.item_id === ITEMS[0]?.item_id)
      .map(({ value }) => value)
    return changes.at(-1)?.price
  }

  async function publishRates(EUR: string): Promise<void> {
    const ingest = await platform.openPublisher(kafka, 'ingest')
    await ingest.send([ratesRecord(kafka.codec, asOf++, { EUR })])
    await ingest.close()
  }
  /** Amounts are converted by it; undefined: they are refused. */
  async function euro(): Promise<string | undefined> {
    const reader = await openFxReader(openWholeTables(tables), platform.log)
    reader.stop()
    return reader.current()?.rates.get('EUR')?.text
  }
  const euroBecomes = (rate: string | undefined) => eventually(async () => (await euro()) === rate, `the rate ${rate}`)
  const recreate = (topic: TopicKey) => recreateTopic(platform, kafka, topic)
  async function succeeds(...words: string[]): Promise<string> {
    const { code, stdout, stderr } = await platform.command(...words)
    expect(code, stderr).to.equal(0)
    return stdout
  }
  const readiness = async (role: 'book' | 'fx'): Promise<string> => {
    const answer = await fetch(`${roles.operatorUrl}/readyz`)
    return ((await answer.json()) as { roles: Record<string, string> }).roles[role] ?? ''
  }
  const stoppedFor = (role: 'book' | 'fx', reason: RegExp) =>
    eventually(async () => expect(await readiness(role)).to.match(reason), `${role} to stop`)
  const gauge = async () =>
    /marketlog_stopped_partitions\{group="book"\} (\d+)/.exec(await roles.metrics.registry.metrics())?.[1]

  it('stop the book where an input topic was deleted and created again while it runs, which says so everywhere', async () => {
    await publish(1_000)
    await platform.drained(['book', 'fx'])
    expect(await price()).to.equal(1_000)
    await recreate('quotes')
    await publish(2_000, 3)
    await stoppedFor(
      'book',
      /market.quotes-\d: the position is of the topic with id \S+, which was deleted.*marketlog reset book/,
    )
    expect(await price()).to.equal(1_000)
    expect(Number(await gauge())).to.be.greaterThan(0)
    expect(await (await fetch(`${roles.operatorUrl}/healthz`)).status).to.equal(200)
    const lag = await platform.command('lag')
    expect(lag.code).to.equal(1)
    expect(lag.stderr).to.match(/market.quotes-\d: the position is of the topic with id/)
    expect((await platform.command('lag', '--wait', '--timeout', '60')).code).to.equal(1)
    expect(roles.failures).to.deep.equal([])
  })

  it('let the book go on with the new one, from its start, once it was reset; its rows stay', async () => {
    const changed = (await succeeds('reset', 'book'))
      .trim()
      .split('\n')
      .map(line => JSON.parse(line))
    expect(changed.map(one => one.partition)).to.include(`market.quotes-${PARTITION}`)
    expect(changed.every(one => one.goes_on_at === 0)).to.equal(true)
    await eventually(async () => expect(await price()).to.equal(2_002), 'the new prices')
    // Each partition is opened again within two seconds.
    await eventually(async () => (await readiness('book')) === 'ready', 'all partitions to be open')
    await platform.drained(['book', 'fx'])
    const changes = (await readTopic(kafka, 'bookChanges')).filter(({ event }) => event === 'BookChanged')
    expect(new Set(changes.map(({ value }) => value.change))).to.deep.equal(new Set(['added', 'updated']))
    expect(changes.filter(({ value }) => value.change === 'added')).to.have.length(ITEMS.length)
    expect([await readiness('book'), await gauge()]).to.deep.equal(['ready', '0'])
    expect(await succeeds('reset', 'book')).to.equal('')
  })

  it('stop the book at a position beyond the end, and where its changelog was lost though changes were derived', async () => {
    await roles.stop()
    const book = await platform.openPublisher(kafka, 'book')
    const last = (await readTopic(kafka, 'book')).findLast(
      ({ key, partition }) => key === 'position' && partition === PARTITION,
    )
    const beyond = kafka.codec.encode(positionStored, { ...last?.value, next: 1_000_000 } as never)
    await book.send([{ topic: 'book', partition: PARTITION, key: 'position', value: beyond }])
    await book.close()
    const alone = await platform.command('run', 'book')
    expect(alone.code).to.equal(69)
    expect(alone.stdout + alone.stderr).to.match(/the log ends at/)
    roles = await platform.startRoles(['book', 'fx'])
    await stoppedFor(
      'book',
      new RegExp(`market.quotes-${PARTITION}: the position is 1000000, and the log ends at \\d+`),
    )
    await recreate('book')
    await stoppedFor('book', /market.book holds no position, though book has committed \d+/)
    await succeeds('reset', 'book')
    await publish(3_000)
    await eventually(async () => expect(await price()).to.equal(3_000), 'the prices of a new changelog')
  })

  it('stop a view alone, which refuses its readers and says what was found, until it is rebuilt', async () => {
    await publishRates('0.9')
    await euroBecomes('0.9')
    await recreate('fx')
    await publishRates('0.8')
    await stoppedFor(
      'fx',
      /market.fx-0: the position is of the topic with id \S+, which was deleted.*`marketlog rebuild fx`/,
    )
    await euroBecomes(undefined)
    const lag = await platform.command('lag')
    expect([lag.code, /fx does not go on reading market.fx-0/.test(lag.stderr)]).to.deep.equal([1, true])
    expect((await platform.command('lag', '--wait', '--timeout', '60')).stderr).to.match(/fx does not go on reading/)
    expect((await platform.command('rebuild', 'fx')).code).to.equal(0)
    await euroBecomes('0.8')
    const [stored] = (await readStoredViews(tables)).of('fx').positions
    expect(stored?.position).to.include({ generation: 1 })
    await publishRates('0.7')
    await euroBecomes('0.7')
    expect(roles.failures).to.deep.equal([])
  })

  it('stop a view where records expired unread, which is rebuilt without them when that is accepted', async () => {
    await roles.stop()
    await publishRates('0.6')
    await publishRates('0.5')
    await expireRecords(kafka, 'fx', 0)
    roles = await platform.startRoles(['book', 'fx'])
    await stoppedFor(
      'fx',
      /market.fx-0: 2 records from \d+ to \d+ have expired unread.*`marketlog rebuild fx --accept-loss`/,
    )
    await euroBecomes(undefined)
    const refused = await platform.command('rebuild', 'fx')
    expect([refused.code, /2 records .* have expired unread/.test(refused.stderr)]).to.deep.equal([1, true])
    expect((await platform.command('rebuild', 'fx', '--accept-loss')).code).to.equal(0)
    await publishRates('0.4')
    await euroBecomes('0.4')
  })

  it('used to keep a reader waiting two minutes for offsets of a changelog that was deleted meanwhile', async () => {
    const topic = kafka.topicName('book')
    const reader = await openRangeReader(kafka, [topic])
    const to = (await reader.end(topic, PARTITION)) + 1
    const read = async () => {
      for await (const _ of reader.range(topic, new Map([[PARTITION, { from: 0, to }]])));
    }
    const refused = await read().catch(error => error)
    await reader.close()
    expect(refused.message).to.equal(`${topic}-${PARTITION} ends before ${to}`)
  })

  it('end the processes that keep them in memory, and streams that come back begin again', async () => {
    await roles.stop()
    const listen = (lastId?: string) => listeners.listen(roles.baseUrl, '/feed/prices?resume=true', lastId)
    const book = await platform.openPublisher(kafka, 'book')
    const change = () => book.send([bookChangeRecord(kafka.codec, changed({ item_id: 7, refresh_id: null }))])
    roles = await platform.startRoles(['feed', 'alert-triggers'])
    const client = await listen()
    await change()
    const { id } = await client.event(({ event }) => event === 'prices.changed')
    client.close()
    for (const topic of KEPT) await recreate(topic)
    for (const said of KEPT.map(topic => new RegExp(`^${topics[topic].name} was deleted`))) {
      roles.expectFailure(said)
      await eventually(() => roles.failures.some(({ message }) => said.test(message)), `${said}`)
    }
    await book.close()
    await roles.stop()
    roles = await platform.startRoles(['feed', 'alert-triggers'])
    const resumed = await listen(id)
    expect((await resumed.event(({ event }) => event === 'resync')).data).to.deep.equal({ reason: 'unknown' })
  })
})
