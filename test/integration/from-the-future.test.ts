import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { expect } from 'chai'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Publisher } from '#infra/kafka/publisher.ts'
import { openTopicIds } from '#infra/kafka/topic-ids.ts'
import { feedAdvanced } from '#schemas/events/feed-advanced.ts'
import { DAY_MS, HOUR_MS } from '#schemas/values/instant.ts'
import { openRateFeed } from '#streams/alert-triggers/rates.ts'
import { useClickhouse } from '#test/fixtures/use-clickhouse.ts'
import { eventually } from '#test/harness/eventually.ts'
import { listen } from '#test/harness/listen.ts'
import { ratesRecord, refreshOf, refreshRecords } from '#test/harness/published-records.ts'
import { readTopic } from '#test/harness/read-topic.ts'
import { smallCatalog } from '#test/harness/small-catalog.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { ratesInForce } from '#test/oracles/rates-in-force.ts'

describe('events from the future', () => {
  const platform = useServers()
  const clickhouse = useClickhouse(platform)
  let kafka: KafkaConnection
  let publisher: Publisher

  before(async () => {
    kafka = platform.connect()
    publisher = await platform.openPublisher(kafka, 'ingest')
  })

  const lettersOf = async (group: string) =>
    (await readTopic(kafka, 'deadLetters')).filter(({ key }) => key === group).map(({ value }) => value.reason)

  it('used to freeze a provider until real time caught up, across restarts: its next honest refresh counts', async () => {
    const now = Date.now()
    const { market_hash_name: name = '', item_id: itemId } = smallCatalog().find(({ phase }) => phase === null) ?? {}
    const publish = (observedAt: number, price: number): Promise<void> => {
      const entries = [{ name, itemId, price, quantity: 1 }]
      return publisher.send(refreshRecords(kafka.codec, refreshOf({ provider: 'provider_33', observedAt, entries })))
    }
    const judged = async () =>
      (await readTopic(kafka, 'refreshes')).map(({ value: { verdict, reason } }) => `${verdict} ${reason}`)
    const expected: string[] = []
    for (const [hours, price, verdict] of [
      [24, 7, 'failed from_the_future'],
      [-3, 8, 'applied null'],
      [24, 7, 'failed from_the_future'],
      [-2, 9, 'applied null'],
    ] as const) {
      await publish(now + hours * HOUR_MS, price)
      const roles = await platform.startRoles(['book', 'provider-health'])
      expected.push(verdict)
      await eventually(async () => expect(await judged()).to.deep.equal(expected), verdict)
      await roles.stop()
    }
    await eventually(async () => {
      const changes = (await readTopic(kafka, 'bookChanges')).filter(({ event }) => event === 'BookChanged')
      return expect(changes.map(({ value }) => [value.price, value.seen_at])).to.deep.equal([
        [8, now - 3 * HOUR_MS],
        [9, now - 2 * HOUR_MS],
      ])
    }, 'the changes of the honest refreshes')
    for (const { value } of await readTopic(kafka, 'refreshes')) expect(value.observed_at).to.be.at.most(Date.now())
  })

  it('used to freeze the exchange rates: a table from the future is a dead letter, and the former one stays in force', async () => {
    const now = Date.now()
    const publish = (asOf: number, EUR: string): Promise<void> =>
      publisher.send([ratesRecord(kafka.codec, asOf, { EUR })])
    const inForce = async () => (await ratesInForce(clickhouse.writer))?.rates.EUR
    await publish(now - 2 * HOUR_MS, '0.91')
    const first = await platform.startRoles(['fx'])
    await eventually(async () => expect(await inForce()).to.equal('0.91'), 'the former rates')
    // A view that is made whole sets nothing aside: its role did, when it met the record.
    await publish(now + DAY_MS, '0.5')
    await eventually(async () => expect(await lettersOf('fx')).to.deep.equal(['from_the_future']))
    expect(await inForce()).to.equal('0.91')
    await first.stop()
    await publish(now - HOUR_MS, '0.92')
    const second = await platform.startRoles(['fx'])
    await eventually(async () => expect(await inForce()).to.equal('0.92'), 'the next rates')
    await second.stop()
    // An older table that comes later, as after a repeated run of its source, changes nothing either.
    await publish(now - 3 * HOUR_MS, '0.9')
    const ids = openTopicIds(kafka)
    const alerts = await openRateFeed(kafka, ids, error => expect.fail(error.message))
    expect(alerts.current().rates.get('EUR')?.text).to.equal('0.92')
    await alerts.close()
    await ids.close()
  })

  it('used to ask a provider no more once a refresh of it came from the future: ingest does not remember that', async () => {
    const answer = JSON.stringify([{ name: 'a', cost: 1, n: 1 }])
    const server = await listen(createServer((_, response) => response.end(answer)))
    try {
      const about = { side: 'ask', provider: 'provider_06', sale_hashes: null } as const
      const advanced = { ...about, observed_at: Date.now() + DAY_MS }
      const key = 'ask|provider_06'
      await publisher.send([{ topic: 'feeds', key, value: kafka.codec.encode(feedAdvanced, advanced) }])
      const url = `http://127.0.0.1:${server.port}`
      const options = { url, mapping: '$.{"market_hash_name": name, "price": cost, "quantity": n}' }
      const feed = { provider: 'provider_06', side: 'ask', connector: 'http-json', interval_ms: 1_000, options }
      const market = join(platform.config.stateDir, 'market.json')
      writeFileSync(market, JSON.stringify({ name: 'test', feeds: [feed] }))
      const roles = await platform.startRoles(['ingest'], { market })
      const last = async () => (await readTopic(kafka, 'feeds')).at(-1)?.value.observed_at
      await eventually(async () => (await last()) <= Date.now(), 'a refresh of now')
      await roles.stop()
      const known = async () =>
        (await readTopic(kafka, 'quotes')).filter(({ value }) => value.provider === 'provider_06')
      await eventually(async () => (await known()).length >= 2, 'the refresh')
    } finally {
      await server.close()
    }
  })
})
