/**
 * One writer per partition: what a former owner still sends after another has taken over counts for nothing.
 *
 * The moment that random freezes seldom hit: an owner that wakes with its batch folded and writes it. Two
 * owners of one partition are opened here in turn, on a real broker.
 */
import { expect } from 'chai'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { openTransactionalProducer, type TransactionalProducer } from '#infra/kafka/transactional-producer.ts'
import { refreshMarked } from '#schemas/events/book-changed.ts'
import { eventually } from '#test/harness/eventually.ts'
import { marked } from '#test/harness/published-records.ts'
import { readTopic } from '#test/harness/read-topic.ts'
import { useServers } from '#test/harness/use-servers.ts'

const ID = 'book-market.quotes-0'
const noTick = async () => undefined

describe('a partition of the book', () => {
  const platform = useServers()
  let kafka: KafkaConnection
  const opened: TransactionalProducer[] = []

  before(async () => {
    kafka = platform.connect()
    await kafka.codec.prepare([refreshMarked])
  })
  after(() => Promise.all(opened.map(producer => producer.close())))

  async function openOwner(): Promise<TransactionalProducer> {
    const producer = await openTransactionalProducer(kafka, { transactionalId: ID, writers: ['book', 'runner'] })
    opened.push(producer)
    await producer.lock(noTick)
    return producer
  }

  const marker = (refresh_id: string): Buffer =>
    kafka.codec.encode(refreshMarked, marked({ refresh_id, last_updated: 1 }))

  const commit = (owner: TransactionalProducer, refreshId: string, next: number): Promise<void> =>
    owner.commit([{ topic: 'bookChanges', partition: 0, key: 'refresh|p', value: marker(refreshId) }], {
      group: 'book',
      topic: 'quotes',
      partition: 0,
      next,
    })

  const shown = async (): Promise<string[]> =>
    (await readTopic(kafka, 'bookChanges')).map(({ value }) => value.refresh_id)

  async function groupOffset(): Promise<string | undefined> {
    const admin = kafka.newClient('admin').admin()
    await admin.connect()
    const [found] = await admin.fetchOffsets({ groupId: kafka.groupName('book'), topics: [kafka.topicName('quotes')] })
    await admin.disconnect()
    return found?.partitions.find(({ partition }) => partition === 0)?.offset
  }

  it('refuses the records and offsets of an owner that another has replaced', async () => {
    const former = await openOwner()
    await commit(former, 'first', 1)
    const owner = await openOwner()
    expect(await commit(former, 'zombie', 99).catch(error => error)).to.be.instanceOf(Error)
    await commit(owner, 'second', 2)
    // The coordinator answers before it has written the markers of the transaction.
    await eventually(async () => expect(await shown()).to.deep.equal(['first', 'second']))
    await eventually(async () => expect(await groupOffset()).to.equal('2'))
  })

  it('ends what a killed owner left open before the next one reads', async () => {
    const killed = kafka.newClient('killed').producer({
      idempotent: true,
      maxInFlightRequests: 1,
      transactionalId: `${platform.namespace}${ID}`,
    })
    await killed.connect()
    const transaction = await killed.transaction()
    const topic = kafka.topicName('bookChanges')
    await transaction.send({ topic, acks: -1, messages: [{ key: 'k', value: marker('cut'), partition: 0 }] })
    const reader = await openRangeReader(kafka, [topic])
    const isHeldBack = async () => (await reader.stableEnd(topic, 0)) < (await reader.end(topic, 0))
    expect(await isHeldBack(), 'an open transaction').to.equal(true)
    await openOwner()
    expect(await isHeldBack()).to.equal(false)
    expect(await shown()).to.not.include('cut')
    await reader.close()
    await killed.disconnect()
  })
})
