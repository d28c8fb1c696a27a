/**
 * One writer per source, and one per partition of the book, on a real log: what a former owner still sends counts for nothing. The moment
 * that random freezes seldom hit: an owner that wakes with its batch and writes it.
 */
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect } from 'chai'
import PQueue from 'p-queue'
import { loadProviders } from '#infra/config/providers.ts'
import { withAdmin } from '#infra/kafka/admin.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { isFenced, openTransactionalProducer, type TransactionalProducer } from '#infra/kafka/transactional-producer.ts'
import { refreshMarked } from '#schemas/events/book-changed.ts'
import { topics } from '#schemas/topics.ts'
import { HOUR_MS } from '#schemas/values/instant.ts'
import { ingestRecorded, SourceIsRun } from '#services/ingest/commands.ts'
import { rateTable } from '#services/ingest/fx/rate-table.ts'
import { openPositions } from '#services/ingest/positions.ts'
import { openPortions, publishRefresh } from '#services/ingest/publish-refresh.ts'
import { SALES_MAX } from '#services/ingest/sale-list.ts'
import type { RawSale } from '#services/ingest/source.ts'
import { openSourceProducer, openSourceWriter, type SourceWriter, WriteFailed } from '#services/ingest/source-writer.ts'
import { readFeedRecords } from '#test/fixtures/feed-records.ts'
import { eventually } from '#test/harness/eventually.ts'
import { marked } from '#test/harness/published-records.ts'
import { type ReadRecord, readTopic } from '#test/harness/read-topic.ts'
import { runCommand } from '#test/harness/run-command.ts'
import { useServers } from '#test/harness/use-servers.ts'

const noRates = rateTable(0, 'test', new Map())
const never = new AbortController().signal

describe('writers of sources', () => {
  const platform = useServers()
  let kafka: KafkaConnection
  const opened: SourceWriter[] = []

  before(async () => {
    kafka = platform.connect('ingest')
    await kafka.codec.prepare([...topics.quotes.events, ...topics.sales.events, ...topics.feeds.events])
  })
  after(async () => {
    for (const writer of opened) await writer.close()
  })

  async function openWriter(name: string): Promise<SourceWriter> {
    const brokerHealth = { answered: () => undefined, lost: () => undefined }
    const context = {
      kafka,
      brokerHealth,
      opening: new PQueue(),
      waits: <T>(work: Promise<T>) => work,
      confirmed: async () => undefined,
    }
    const writer = openSourceWriter(context, name, never)
    opened.push(writer)
    await writer.open()
    return writer
  }

  it('refuses what a former owner still sends: its refresh stays cut, the new owner’s is whole', async () => {
    const feed = { provider: 'provider_01', side: 'ask' as const }
    const positions = openPositions(kafka, () => 1)
    const former = await openWriter('ask|provider_01')
    let owner: SourceWriter | undefined
    const entries = Array.from({ length: 9_000 }, (_, i) => ({ market_hash_name: `item ${i}`, price: 1, quantity: 1 }))
    const publish = (writer: SourceWriter, observedAt: number) => {
      const refresh = { kind: 'refresh' as const, observedAt, currency: 'USD', entries }
      const publisher = { codec: kafka.codec, send: writer.send, portions: openPortions() }
      return publishRefresh(publisher, feed, refresh, noRates, never, positions)
    }
    const sent: number[] = []
    const counted: SourceWriter = {
      ...former,
      async send(records) {
        // The former owner has written two portions when it freezes; another takes the feed over and publishes.
        if (sent.length === 2) {
          owner = await openWriter('ask|provider_01')
          await publish(owner, 20)
        }
        await former.send(records)
        sent.push(records.length)
      },
    }
    const failure = await publish(counted, 10).catch(error => error)
    expect(failure).to.be.instanceOf(WriteFailed)
    expect(isFenced(failure), String(failure?.cause)).to.equal(true)
    const records = async () => {
      const { completed, cut, faults } = await readFeedRecords(kafka)
      return { completed: completed.get('quotes provider_01'), cut, faults }
    }
    // The log shows a transaction some time after it was committed.
    await eventually(async () => expect(await records()).to.deep.equal({ completed: [20], cut: 1, faults: [] }))
    await positions.refresh(Number(await former.reopen(failure)))
    expect(positions.of(feed)).to.equal(20)
    await publish(former, 30)
    await eventually(async () => expect((await records()).completed).to.deep.equal([20, 30]))
  })

  it('stores a refresh and its position together or not at all', async () => {
    const feed = { provider: 'provider_03', side: 'sale' as const }
    const positions = openPositions(kafka, () => 1)
    const writer = await openWriter('sale|provider_03')
    const position = { ...feed, observed_at: 77, sale_hashes: Buffer.from('12345678') }
    const records = positions.recordsOf(position)
    const tooLarge = { topic: 'feeds' as const, key: 'x', value: randomBytes(17 * 2 ** 20) }
    const failure = await writer.send([...records, tooLarge]).catch(error => error)
    expect(failure).to.be.instanceOf(WriteFailed)
    await positions.refresh(Number(await writer.open()))
    expect(positions.of(feed)).to.equal(undefined)
    await writer.send(records)
    await positions.refresh(Number(await writer.open()))
    expect([positions.of(feed), positions.nextSaleList(feed).hashes()]).to.deep.equal([77, position.sale_hashes])
    expect(positions.recordsOf(position)).to.deep.equal([])
  })

  it('writes the new sales of a list in one transaction with its position, so the next owner publishes none of them', async () => {
    const feed = { provider: 'provider_09', side: 'sale' as const }
    const firstAt = Date.UTC(2026, 2, 1)
    const saleAt = (i: number) => ({ market_hash_name: 'a', price: 1, sold_at: firstAt + i, sale_id: i })
    /** Publishes a list as a process that has just become the owner; returns how many records each transaction had. */
    const publish = async (entries: RawSale[], observedAt: number): Promise<number[]> => {
      const writer = await openWriter('sale|provider_09')
      const positions = openPositions(kafka, () => 1)
      await positions.refresh(Number(await writer.open()))
      const sent: number[] = []
      const send: SourceWriter['send'] = async records => {
        sent.push(records.length)
        await writer.send(records)
      }
      const refresh = { kind: 'refresh' as const, observedAt, currency: 'USD', entries }
      const publisher = { codec: kafka.codec, send, portions: openPortions() }
      await publishRefresh(publisher, feed, refresh, noRates, never, positions)
      return sent
    }
    const list = Array.from({ length: SALES_MAX }, (_, i) => saleAt(i))
    const next = [saleAt(SALES_MAX), ...list.slice(1)]
    expect(await publish(list, firstAt + 10_000)).to.deep.equal([SALES_MAX + 1])
    expect(await publish(next, firstAt + 20_000)).to.deep.equal([2])
    expect(await publish([], firstAt + 30_000)).to.deep.equal([1])
    expect(await publish(next, firstAt + 40_000)).to.deep.equal([1])
    const sold = async () => (await readTopic(kafka, 'sales')).map(({ value }) => Number(value.sale_id))
    await eventually(async () => expect(await sold()).to.deep.equal([...list.keys(), SALES_MAX]))
  })

  it('refuses recorded files beside a process that runs the feed, in one line, and takes them when it has stopped', async () => {
    const dir = mkdtempSync(join(platform.config.stateDir, 'recorded-'))
    const prices = JSON.stringify({ refreshed_at: '2026-03-01T00:00:00Z', prices: { a: 1 } })
    writeFileSync(join(dir, 'a.json.gz'), gzipSync(prices))
    const market = join(platform.config.stateDir, 'market.json')
    const options = { url: 'http://127.0.0.1:9', mapping: '$' }
    const feeds = [{ provider: 'provider_05', side: 'ask', connector: 'http-json', interval_ms: HOUR_MS, options }]
    writeFileSync(market, JSON.stringify({ name: 'live', feeds }))
    const roles = await platform.startRoles(['ingest'], { market })
    await roles.ready()
    const run = (provider: string) =>
      runCommand(['ingest', 'recorded', '--provider', provider, '--dir', dir], {
        PATH: process.env.PATH,
        ...platform.environment,
      })
    const refused = await run('provider_05')
    expect({ code: refused.code, said: refused.stderr.trimEnd().split('\n').at(-1) }, refused.stderr).to.deep.equal({
      code: 75,
      said: 'marketlog: a running ingest process polls the asks of provider_05: stop it, or take the feed out of its market, first',
    })
    expect((await run('provider_06')).code, 'another provider').to.equal(0)
    await roles.stop()
    const taken = await run('provider_05')
    expect(taken.code, taken.stderr).to.equal(0)
    const isCompleted = ({ key, event }: ReadRecord) => key === 'provider_05' && event === 'RefreshCompleted'
    await eventually(async () => expect((await readTopic(kafka, 'quotes')).filter(isCompleted)).to.have.length(1))
  })

  it('ends recorded files when a process begins to run the feed meanwhile', async () => {
    const dir = mkdtempSync(join(platform.config.stateDir, 'taken-'))
    const paths = [0, 1, 2].map(minute => join(dir, `${minute}.json.gz`))
    const contents = paths.map((_, minute) => {
      const time = new Date(Date.UTC(2026, 2, 1, 0, minute)).toISOString()
      return gzipSync(JSON.stringify({ refreshed_at: time, prices: { a: 1, b: 2 } }))
    })
    for (const [minute, path] of paths.entries()) writeFileSync(path, contents[minute] as Buffer)
    /** Takes the feed while the second file is waited for, whose reader comes when the first stands in the log. */
    const take = async (): Promise<void> => {
      const second = paths[1] as string
      rmSync(second)
      execFileSync('mkfifo', [second])
      const file = await open(second, 'w')
      const live = await openSourceProducer(kafka, 'ask|provider_07')
      await live.close()
      await file.writeFile(contents[1] as Buffer)
      await file.close()
    }
    let taking: Promise<void> | undefined
    const rates = {
      ...noRates,
      rateOf(currency: string) {
        taking ??= take()
        return noRates.rateOf(currency)
      },
    }
    const ingest = ingestRecorded({
      kafka,
      provider: loadProviders().byKey.get('provider_07') ?? expect.fail('no such provider'),
      dir,
      side: 'ask',
      rates,
      report: () => undefined,
      signal: never,
    })
    const failure = await ingest.catch(error => error)
    await taking
    expect(failure).to.be.instanceOf(SourceIsRun)
    expect((await readFeedRecords(kafka)).faults).to.deep.equal([])
  })
})

const ID = 'book-market.quotes-0'

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
    await producer.lock()
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
    const asked = { groupId: kafka.groupName('book'), topics: [kafka.topicName('quotes')] }
    const [found] = await withAdmin(kafka, admin => admin.fetchOffsets(asked))
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

  it('commits offsets alone right after another transaction (the coordinator refused them while it wrote the markers)', async () => {
    const owner = await openOwner()
    for (let next = 3; next <= 40; next++)
      await owner.commit([], { group: 'book', topic: 'quotes', partition: 0, next })
    await eventually(async () => expect(await groupOffset()).to.equal('40'))
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
