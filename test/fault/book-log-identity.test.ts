/**
 * Input topics of the book that are no longer what it has read: deleted and created again, cut short, expired.
 *
 * What used to happen: the book answered "done" for every offset below its own, so all that was published into the new topic was
 * swallowed while old prices were served, and `marketlog lag --wait` ended with 0.
 */
import { expect } from 'chai'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import { positionStored } from '#schemas/events/position-stored.ts'
import { PROVIDER_PARTITIONS, type TopicKey } from '#schemas/topics.ts'
import { partitionOf } from '#schemas/values/partition.ts'
import { expireRecords, recreateTopic } from '#test/fixtures/changed-topics.ts'
import { eventually } from '#test/harness/eventually.ts'
import { refreshOf, refreshRecords } from '#test/harness/published-records.ts'
import { readTopic } from '#test/harness/read-topic.ts'
import { runCommand } from '#test/harness/run-command.ts'
import { smallCatalog } from '#test/harness/small-catalog.ts'
import type { StartedRoles } from '#test/harness/start-roles.ts'
import { useServers } from '#test/harness/use-servers.ts'

const ITEMS = smallCatalog()
  .filter(({ phase }) => phase === null)
  .slice(0, 20)
const PROVIDER = 'provider_01'
const PARTITION = partitionOf(PROVIDER, PROVIDER_PARTITIONS)
/** Those that do not run here. */
const VIEWS = ['live-view', 'candles', 'history', 'alert-triggers', 'provider-health', 'provisional-items']

describe('the book on a log that is not what it was', () => {
  const platform = useServers()
  let kafka: KafkaConnection
  let roles: StartedRoles
  let hour = 0

  before(async () => {
    kafka = platform.connect()
    // Beside another role, it stops alone.
    roles = await platform.startRoles(['book', 'provisional-items'])
  })

  async function publish(price: number, refreshes = 1): Promise<void> {
    const ingest = await platform.openPublisher(kafka, 'ingest')
    for (let round = 0; round < refreshes; round++) {
      hour += 1
      const entries = ITEMS.map(({ market_hash_name: name, item_id: itemId }) => {
        return { name, phase: null, itemId, price: price + round, quantity: 1 }
      })
      const observedAt = Date.UTC(2026, 2, 3) + hour * 3_600_000
      await ingest.send(refreshRecords(kafka.codec, refreshOf({ provider: PROVIDER, observedAt, entries })))
    }
    await ingest.close()
  }

  /** The last price of the first item. */
  async function price(): Promise<number | null | undefined> {
    const changes: BookChanged[] = (await readTopic(kafka, 'bookChanges'))
      .filter(({ event, value }) => event === 'BookChanged' && value.item_id === ITEMS[0]?.item_id)
      .map(({ value }) => value)
    return changes.at(-1)?.price
  }

  const recreate = (topic: TopicKey) => recreateTopic(platform, kafka, topic)
  const marketlog = (...words: string[]) =>
    runCommand(words, { PATH: process.env.PATH, ...platform.environment }) as Promise<{
      code: number
      stdout: string
      stderr: string
    }>
  async function succeeds(...words: string[]): Promise<string> {
    const { code, stdout, stderr } = await marketlog(...words)
    expect(code, stderr).to.equal(0)
    return stdout
  }
  const bookReadiness = async (): Promise<string> => {
    const { roles: all } = (await (await fetch(`${roles.operatorUrl}/readyz`)).json()) as {
      roles: Record<string, string>
    }
    return all.book ?? ''
  }
  const stoppedFor = (reason: RegExp) =>
    eventually(async () => expect(await bookReadiness()).to.match(reason), 'the book to stop')
  const gauge = async () =>
    /marketlog_stopped_partitions\{group="book"\} (\d+)/.exec(await roles.metrics.registry.metrics())?.[1]

  it('stops where an input topic was deleted and created again while it runs, and says so everywhere', async () => {
    await publish(1_000)
    await platform.drained(VIEWS)
    expect(await price()).to.equal(1_000)
    await recreate('quotes')
    await publish(2_000, 3)
    await stoppedFor(
      /market.quotes-\d: the position is of the topic with id \S+, which was deleted.*marketlog reset book/,
    )
    expect(await price()).to.equal(1_000)
    expect(Number(await gauge())).to.be.greaterThan(0)
    expect(await (await fetch(`${roles.operatorUrl}/healthz`)).status).to.equal(200)
    const lag = await marketlog('lag')
    expect(lag.code).to.equal(1)
    expect(lag.stderr).to.match(/market.quotes-\d: the position is of the topic with id/)
    expect((await marketlog('lag', '--wait', '--timeout', '60')).code).to.equal(1)
    expect(roles.failures).to.deep.equal([])
  })

  it('goes on with the new topic, from its start, once it was reset; its rows stay', async () => {
    const changed = (await succeeds('reset', 'book'))
      .trim()
      .split('\n')
      .map(line => JSON.parse(line))
    expect(changed.map(one => one.partition)).to.include(`market.quotes-${PARTITION}`)
    expect(changed.every(one => one.goes_on_at === 0)).to.equal(true)
    await eventually(async () => expect(await price()).to.equal(2_002), 'the new prices')
    // Each partition is opened again within two seconds.
    await eventually(async () => (await bookReadiness()) === 'ready', 'all partitions to be open')
    await platform.drained(VIEWS)
    const changes = (await readTopic(kafka, 'bookChanges')).filter(({ event }) => event === 'BookChanged')
    expect(new Set(changes.map(({ value }) => value.change))).to.deep.equal(new Set(['added', 'updated']))
    expect(changes.filter(({ value }) => value.change === 'added')).to.have.length(ITEMS.length)
    expect([await bookReadiness(), await gauge()]).to.deep.equal(['ready', '0'])
    expect(await succeeds('reset', 'book')).to.equal('')
  })

  it('stops where records expired before it read them, and names how many', async () => {
    await roles.stop()
    await publish(3_000, 2)
    const expired = await expireRecords(kafka, 'quotes', PARTITION)
    roles = await platform.startRoles(['book', 'provisional-items'])
    await stoppedFor(new RegExp(`market.quotes-${PARTITION}: \\d+ records from \\d+ to ${expired} have expired unread`))
    await succeeds('reset', 'book')
    await publish(3_500)
    await eventually(async () => expect(await price()).to.equal(3_500), 'the prices after the gap')
  })

  it('stops at a position beyond the end, and where its changelog was lost though changes were derived', async () => {
    await roles.stop()
    const book = await platform.openPublisher(kafka, 'book')
    const last = (await readTopic(kafka, 'book')).findLast(
      ({ key, partition }) => key === 'position' && partition === PARTITION,
    )
    const beyond = kafka.codec.encode(positionStored, { ...last?.value, next: 1_000_000 } as never)
    await book.send([{ topic: 'book', partition: PARTITION, key: 'position', value: beyond }])
    await book.close()
    const alone = await marketlog('run', 'book')
    expect(alone.code).to.equal(69)
    expect(alone.stdout + alone.stderr).to.match(/the log ends at/)
    roles = await platform.startRoles(['book', 'provisional-items'])
    await stoppedFor(new RegExp(`market.quotes-${PARTITION}: the position is 1000000, and the log ends at \\d+`))
    await recreate('book')
    await stoppedFor(/market.book holds no position, though book has committed \d+/)
    await succeeds('reset', 'book')
    await publish(4_000)
    await eventually(async () => expect(await price()).to.equal(4_000), 'the prices of a new changelog')
  })

  it('used to wait two minutes for offsets of a changelog that was deleted meanwhile', async () => {
    const topic = kafka.topicName('book')
    const reader = await openRangeReader(kafka, [topic])
    const to = (await reader.end(topic, PARTITION)) + 1
    const refused = await reader
      .read({ topic, partition: PARTITION, from: 0, to }, () => undefined)
      .catch(error => error)
    await reader.close()
    expect(refused.message).to.equal(`${topic}-${PARTITION} ends before ${to}`)
  })
})
