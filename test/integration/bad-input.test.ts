/**
 * What comes in wrong ends as a dead letter or a quarantined refresh; the rest goes on, and a counter and a log line say so.
 *
 * A real `book` process reads what the recorded connector and raw records bring; its counters are read from
 * its /metrics and its lines from its output. Every scene has a provider of its own.
 */
import { mkdtempSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect } from 'chai'
import { loadProviders } from '#infra/config/providers.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Publisher } from '#infra/kafka/publisher.ts'
import { openRangeReader, type RangeReader } from '#infra/kafka/range-reader.ts'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import type { DeadLettered } from '#schemas/events/dead-lettered.ts'
import type { RefreshJudged } from '#schemas/events/refresh-judged.ts'
import { PROVIDER_PARTITIONS, type TopicKey, topics } from '#schemas/topics.ts'
import { HOUR_MS } from '#schemas/values/instant.ts'
import { partitionOf } from '#schemas/values/partition.ts'
import { ingestRecorded, type RecordedTotals } from '#services/ingest/commands.ts'
import { rateTable } from '#services/ingest/fx/rate-table.ts'
import { eventually } from '#test/harness/eventually.ts'
import { refreshOf, refreshRecords } from '#test/harness/published-records.ts'
import { type ReadRecord, readTopic } from '#test/harness/read-topic.ts'
import { smallCatalog } from '#test/harness/small-catalog.ts'
import type { SpawnedRole } from '#test/harness/spawn-role.ts'
import { useServers } from '#test/harness/use-servers.ts'

const OUTPUTS: readonly TopicKey[] = ['refreshes', 'bookChanges', 'quarantine', 'unresolved', 'deadLetters']
const FIRST_TIME = Date.UTC(2026, 2, 3)
const RATES = new Map([
  ['EUR', '0.5'],
  ['JPY', '150'],
])
const names = smallCatalog()
  .filter(({ phase }) => phase === null)
  .slice(0, 100)
  .map(({ market_hash_name }) => market_hash_name)

/** A recorded file's text: what JSON lacks may be in `prices` as it is. */
const fileText = (hour: number, prices: Record<string, unknown>, currency = 'USD'): string => {
  const members = Object.entries(prices).map(([name, price]) => `${JSON.stringify(name)}: ${String(price)}`)
  const refreshed_at = new Date(FIRST_TIME + hour * HOUR_MS).toISOString()
  return `{"currency": "${currency}", "refreshed_at": "${refreshed_at}", "prices": {${members.join(', ')}}}`
}

const prices = (count: number, price: (index: number) => unknown = () => 1_000): Record<string, unknown> =>
  Object.fromEntries(names.slice(0, count).map((name, index) => [name, price(index)]))

const textOf = ({ verdict, reason }: RefreshJudged): string => (reason === null ? verdict : `${verdict} ${reason}`)

describe('bad input', () => {
  const platform = useServers()
  const providers = loadProviders()
  const unused = providers.all.map(({ key }) => key)
  let kafka: KafkaConnection
  let publisher: Publisher
  let reader: RangeReader
  let book: SpawnedRole

  before(async () => {
    kafka = platform.connect()
    publisher = await platform.openPublisher(kafka, 'ingest')
    reader = await openRangeReader(
      kafka,
      OUTPUTS.map(topic => kafka.topicName(topic)),
    )
    book = await platform.spawnRole('book')
  })
  after(() => reader.close())

  const nextProvider = (): string => unused.shift() ?? expect.fail('all providers are used')

  /** Brings files through the recorded connector, in the order of their times. */
  async function ingest(
    provider: string,
    files: readonly (string | Buffer)[],
  ): Promise<{ totals: RecordedTotals; lines: string[] }> {
    const dir = mkdtempSync(join(platform.config.stateDir, provider))
    for (const [number, file] of files.entries()) {
      writeFileSync(join(dir, `${number}.json.gz`), typeof file === 'string' ? gzipSync(file) : file)
    }
    const lines: string[] = []
    const totals = await ingestRecorded({
      kafka,
      providers,
      provider,
      dir,
      side: 'ask',
      rates: rateTable(FIRST_TIME, 'test', RATES),
      report: line => void lines.push(line),
      signal: new AbortController().signal,
    })
    return { totals, lines }
  }

  const of = async (topic: TopicKey, provider: string): Promise<ReadRecord[]> =>
    (await readTopic(kafka, topic)).filter(({ value }) => value.provider === provider)

  /** Whether every topic shows the transactions that one of them shows: a commit reaches partition after partition. */
  async function areShown(): Promise<boolean> {
    for (const topic of OUTPUTS) {
      for (let partition = 0; partition < topics[topic].partitions; partition++) {
        const at = [kafka.topicName(topic), partition] as const
        if ((await reader.stableEnd(...at)) < (await reader.end(...at))) return false
      }
    }
    return true
  }

  /** The verdicts on a provider's refreshes, once there are so many, and all else that was written with them. */
  const verdicts = (provider: string, count: number): Promise<RefreshJudged[]> =>
    eventually(async () => {
      const judged = (await of('refreshes', provider)).map(({ value }): RefreshJudged => value)
      return judged.length >= count && (await areShown()) && judged
    }, `${count} verdicts on ${provider}`)

  const changes = async (provider: string): Promise<BookChanged[]> =>
    (await of('bookChanges', provider)).filter(({ event }) => event === 'BookChanged').map(({ value }) => value)

  const letters = async (provider: string): Promise<DeadLettered[]> =>
    (await readTopic(kafka, 'deadLetters')).map(({ value }) => value).filter(({ key }) => String(key) === provider)

  async function counted(metric: string, labels: Record<string, string>): Promise<number> {
    const answer = await fetch(`${await book.operatorUrl()}/metrics`)
    const lines = (await answer.text()).split('\n').filter(line => line.startsWith(`${metric}{`))
    const fitting = lines.filter(line =>
      Object.entries(labels).every(([name, value]) => line.includes(`${name}="${value}"`)),
    )
    return fitting.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
  }

  /** Counter and log line of records that were not applied. */
  async function expectRejected(outcome: string, reason: string, atLeast: number): Promise<void> {
    const labels = { group: 'book', outcome, reason }
    await eventually(async () => (await counted('marketlog_records_total', labels)) >= atLeast, `${atLeast} ${reason}`)
    await book.line(new RegExp(`"reason":"${reason}"`))
  }

  /** Three observations, and what completes their refresh. */
  const refreshAbout = (provider: string): readonly Buffer[] => {
    const entries = names.slice(0, 3).map(name => ({ name, itemId: undefined, price: 1_000, quantity: 1 }))
    const refresh = refreshOf({ provider, observedAt: FIRST_TIME, refreshId: 'r1', entries })
    return refreshRecords(kafka.codec, refresh).map(({ value }) => value ?? expect.fail('a tombstone'))
  }

  /** A refresh of three sound observations with foreign records in between. */
  async function publishAround(provider: string, foreign: readonly (Buffer | null)[]): Promise<void> {
    const sound = refreshAbout(provider)
    const values = [...sound.slice(0, 2), ...foreign, ...sound.slice(2)]
    await publisher.send(values.map(value => ({ topic: 'quotes', key: provider, value })))
  }

  it('poisoned bytes and ids of unknown schemas become dead letters with their bytes, and the refresh around them is applied', async () => {
    const provider = nextProvider()
    const whole = refreshAbout(provider)[2] ?? expect.fail('no third observation')
    const foreign = Buffer.from(whole)
    foreign.writeInt32BE(2_000_000_000, 1)
    const poison = [
      ...[Buffer.from('no event at all'), whole.subarray(0, 20), Buffer.concat([whole, Buffer.from('more')])],
      ...[foreign, null],
    ]
    await publishAround(provider, poison)
    expect((await verdicts(provider, 1)).map(textOf)).to.deep.equal(['applied'])
    expect(await changes(provider)).to.have.length(3)
    const found = await letters(provider)
    expect(found.map(({ reason }) => reason)).to.deep.equal([...Array(4).fill('undecodable'), 'empty'])
    expect(found[3]?.detail).to.equal('schema id 2000000000 is unknown')
    expect(found.map(({ value }) => value)).to.deep.equal(poison)
    const partition = partitionOf(provider, PROVIDER_PARTITIONS)
    expect(found.map(letter => [letter.topic, letter.partition])).to.deep.equal(
      poison.map(() => ['market.quotes', partition]),
    )
    expect(new Set(found.map(({ offset }) => offset)).size).to.equal(poison.length)
    await expectRejected('deadLetter', 'undecodable', 4)
    await expectRejected('deadLetter', 'empty', 1)
  })

  it('an unknown name goes to market.unresolved with its raw record', async () => {
    const provider = nextProvider()
    await ingest(provider, [fileText(0, { ...prices(3), 'AK-48 | Unheard-of': 5_000 })])
    const [judged] = await verdicts(provider, 1)
    expect(judged).to.include({ verdict: 'applied', unresolved: 1, unique_items: 3 })
    const unresolved = await of('unresolved', provider)
    expect(unresolved.map(({ value }) => value.market_hash_name)).to.deep.equal(['AK-48 | Unheard-of'])
    expect(kafka.codec.decode(unresolved[0]?.value.value).value).to.include({ price: 5_000, provider })
    await expectRejected('unresolved', 'unknown_name', 1)
  })

  it('a refresh that lost 90 percent of the items is quarantined once; a good one after it is applied', async () => {
    const provider = nextProvider()
    const refreshes = [prices(100), prices(10), prices(100, () => 1_010)]
    await ingest(
      provider,
      refreshes.map((listed, hour) => fileText(hour, listed)),
    )
    const judged = await verdicts(provider, 3)
    expect(judged.map(textOf)).to.deep.equal(['applied', 'quarantined collapsed', 'applied'])
    expect(judged[1]).to.include({ unique_items: 100 })
    const [held] = await of('quarantine', provider)
    expect(held?.value).to.include({ reason: 'collapsed', items_before: 100, items_now: 10 })
    expect((await changes(provider)).filter(({ change }) => change === 'removed')).to.deep.equal([])
    const labels = { provider, verdict: 'quarantined' }
    await eventually(async () => (await counted('marketlog_refreshes_judged_total', labels)) === 1, 'its counter')
    await book.line(new RegExp(`"provider":"${provider}","verdict":"quarantined","reason":"collapsed"`))
  })

  it('NaN, negative and other prices that are none become dead letters; the rest of their refresh is applied', async () => {
    const provider = nextProvider()
    const bad = ['NaN', '-5', '0', '12.5', 'null', 'Infinity', '"12"', '1e300', '{"price": 1000, "quantity": -1}']
    const listed = prices(20, index => bad[index] ?? 1_000)
    const { totals, lines } = await ingest(provider, [fileText(0, listed)])
    expect(totals).to.include({ refreshes: 1, observations: 11, rejected: 9 })
    expect(lines.filter(line => line.includes('9 entries rejected'))).to.have.length(1)
    const [judged] = await verdicts(provider, 1)
    expect(judged).to.include({ verdict: 'applied', rejected: 9, added: 11, unique_items: 11 })
    const found = await letters(provider)
    expect(found.map(({ reason }) => reason)).to.deep.equal([
      ...['price_not_number', 'price_not_positive', 'price_not_positive', 'price_not_integer', 'price_missing'],
      ...['price_not_number', 'price_not_number', 'price_too_large', 'quantity_not_positive'],
    ])
    expect(found[0]?.detail).to.contain('NaN')
    await expectRejected('deadLetter', 'price_not_number', 3)
    await expectRejected('deadLetter', 'price_not_positive', 2)
  })
})
