import { mkdtempSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect } from 'chai'
import { loadMarket } from '#infra/config/market.ts'
import { loadProviders } from '#infra/config/providers.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Publisher } from '#infra/kafka/publisher.ts'
import type { TopicKey } from '#schemas/topics.ts'
import { DAY_MS, HOUR_MS } from '#schemas/values/instant.ts'
import { openSources } from '#services/ingest/connectors/open.ts'
import { rateTable } from '#services/ingest/fx/rate-table.ts'
import { keepRates, packagedRates, publishRates, remoteRates } from '#services/ingest/fx/rates.ts'
import { openPortions, publishRefresh, refreshId } from '#services/ingest/publish-refresh.ts'
import { eventually, within } from '#test/harness/eventually.ts'
import { type Listening, listen } from '#test/harness/listen.ts'
import { type ReadRecord, readTopic } from '#test/harness/read-topic.ts'
import { runCommand } from '#test/harness/run-command.ts'
import { useServers } from '#test/harness/use-servers.ts'

const PRICES = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`Sticker | Test ${i}`, 100 + i]))
const noRates = rateTable(0, 'test', new Map())

describe('ingest role', () => {
  const platform = useServers()
  const servers: Listening[] = []
  let kafka: KafkaConnection
  let publisher: Publisher

  before(async () => {
    kafka = platform.connect('ingest')
    publisher = await platform.openPublisher(kafka, 'ingest')
    write('base.json.gz', recorded('2026-03-03T21:34:30Z', PRICES))
  })
  after(() => Promise.all(servers.map(server => server.close())))

  const recorded = (time: string, prices: object, currency = 'USD') =>
    gzipSync(JSON.stringify({ provider_feed: 'x', currency, refreshed_at: time, prices }))
  function write(name: string, content: Buffer | object): string {
    const path = join(platform.config.stateDir, name)
    writeFileSync(path, Buffer.isBuffer(content) ? content : JSON.stringify(content))
    return path
  }

  async function serve(listener: RequestListener): Promise<string> {
    const server = await listen(createServer(listener))
    servers.push(server)
    return `http://127.0.0.1:${server.port}`
  }

  const recordsOf = async (topic: TopicKey, provider?: string): Promise<ReadRecord[]> =>
    (await readTopic(kafka, topic)).filter(({ value }) => provider === undefined || value.provider === provider)
  const completedOf = async (topic: TopicKey, provider: string) =>
    (await recordsOf(topic, provider)).filter(({ event }) => event === 'RefreshCompleted').map(({ value }) => value)

  const simulated = (provider: string, side: string, intervalMs: number) => ({
    provider,
    side,
    connector: 'simulated',
    interval_ms: intervalMs,
    options: { churn: 0.2, per_day: 500 },
  })

  it('backfills in time order, goes live, and repeats nothing after a restart', async () => {
    const asksAndBids = (['ask', 'bid'] as const).map(side => simulated('provider_04', side, 1_000))
    const feedsOfFile = [...asksAndBids, simulated('provider_02', 'sale', DAY_MS)]
    const about = { name: 'test', base: 'base.json.gz', seed: 7, backfill: { days: 2, refreshes_per_day: 4 } }
    const market = write('simulated.json', { ...about, feeds: feedsOfFile })
    const startedAt = Date.now()
    for (const run of [1, 2]) {
      const runAt = Date.now()
      const roles = await platform.startRoles(['ingest'], { market })
      await roles.ready()
      const isLive = async () =>
        (await completedOf('quotes', 'provider_04')).some(({ observed_at }) => observed_at > runAt)
      await eventually(isLive, `a refresh of run ${run}`)
      await roles.stop()
      expect(roles.failures).to.deep.equal([])
    }

    const rates = await packagedRates()
    const feeds = await openSources(loadMarket(market), loadProviders(), rates, {})
    for (const topic of ['quotes', 'bids'] as const) {
      const feed = feeds.find(one => one.side === (topic === 'quotes' ? 'ask' : 'bid'))
      const completed = await completedOf(topic, 'provider_04')
      const times = completed.map(({ observed_at }) => observed_at)
      expect(times).to.deep.equal([...new Set(times)].sort((a, b) => a - b))
      expect(times.filter(time => time < startedAt - HOUR_MS)).to.have.length.within(7, 8)
      expect(times[0]).to.be.at.least(startedAt - 2 * DAY_MS)
      const observed = (await recordsOf(topic, 'provider_04')).filter(({ event }) => event?.endsWith('Observed'))
      for (const { refresh_id, observed_at, count, currency, usd_rate } of completed) {
        const own = observed.filter(({ value }) => value.refresh_id === refresh_id).map(({ value }) => value)
        const expected = [...(feed?.connector.refreshAt?.(observed_at, 0, rates).entries ?? [])]
        expect(refresh_id).to.equal(refreshId(observed_at))
        expect(own.map(({ index }) => index)).to.deep.equal(Array.from({ length: count }, (_, i) => i))
        const shown = own.map(({ market_hash_name, phase, price, quantity, url }) => {
          return { market_hash_name, phase, price, quantity, url }
        })
        expect(shown).to.deep.equal(expected)
        expect([currency, usd_rate]).to.deep.equal(['CNY', rates.event.rates.CNY])
      }
    }
    const sold = (await recordsOf('sales', 'provider_02')).map(({ value }) => value)
    expect(new Set(sold.map(one => one.sale_id)).size).to.equal(sold.length)
    expect(sold.length).to.be.greaterThan(500)
  })

  it('lets a slow provider delay no other, and reports a broken one', async () => {
    const good = await serve((_, response) => response.end(JSON.stringify([{ name: 'a', cost: 1.5, n: 2 }])))
    const hanging = await serve(() => undefined)
    const broken = await serve((_, response) => response.writeHead(404).end())
    const mapping = '$.{"market_hash_name": name, "price": $minor(cost), "quantity": n}'
    const patience = { request_timeout_ms: 600_000, total_timeout_ms: 600_000 }
    const polled = (provider: string, url: string) => ({
      provider,
      side: 'ask',
      connector: 'http-json',
      interval_ms: 1_000,
      options: { url, mapping, ...patience },
    })
    const feeds = [polled('provider_06', hanging), polled('provider_07', good), polled('provider_08', broken)]
    const roles = await platform.startRoles(['ingest'], { market: write('polled.json', { name: 'polled', feeds }) })
    await eventually(async () => (await completedOf('quotes', 'provider_07')).length >= 3, 'three refreshes')
    await eventually(async () => (await recordsOf('quotes', 'provider_08')).length >= 2, 'two failures')
    const metrics = await roles.metrics.registry.metrics()
    await within(roles.stop(), 'a stop while a provider hangs')

    const [first] = await recordsOf('quotes', 'provider_07')
    expect(first?.value).to.include({ market_hash_name: 'a', price: 150, quantity: 2, currency: 'USD' })
    expect(await recordsOf('quotes', 'provider_06')).to.deep.equal([])
    for (const { event, value } of await recordsOf('quotes', 'provider_08')) {
      expect(event).to.equal('RefreshFailed')
      expect(value).to.include({ provider: 'provider_08', reason: 'http_status' })
    }
    expect(metrics).to.match(
      /marketlog_ingest_refreshes_total\{provider="provider_08",side="ask",result="failed"\} [1-9]/,
    )
    expect(metrics).to.match(/marketlog_ingest_observations_total\{provider="provider_07",side="ask"\} [1-9]/)
  })

  it('publishes each sale once however many lists show it, and loses none, through the end of the process by SIGKILL', async () => {
    const soldFrom = Date.now() - DAY_MS
    let asked = 0
    /** The next sale comes with each poll, and the oldest of five goes. */
    const url = await serve((_, response) => {
      const list = Array.from({ length: 5 }, (_, i) => ({
        id: asked + i,
        name: 'AK-47 | Redline (Field-Tested)',
        cost: 1,
        at: soldFrom + asked + i,
      }))
      asked += 1
      response.end(JSON.stringify(list))
    })
    const mapping = '$.{"market_hash_name": name, "price": $minor(cost), "sold_at": at, "sale_id": id}'
    const feed = { provider: 'provider_14', side: 'sale', connector: 'http-json', interval_ms: 1_000 }
    const market = write('sold.json', { name: 'sold', feeds: [{ ...feed, options: { url, mapping } }] })
    const published = async () => (await recordsOf('sales', 'provider_14')).map(({ value }) => Number(value.sale_id))
    for (const run of [1, 2]) {
      const before = (await published()).length
      const role = await platform.spawnRole('ingest', { MARKET: market })
      await eventually(async () => (await published()).length >= before + 3, `lists of run ${run}`)
      role.kill('SIGKILL')
      await role.ended
    }
    const sold = await published()
    expect(sold).to.deep.equal([...sold.keys()])
  })

  it('ends a refresh that is cut at a record’s boundary and never completes it', async () => {
    const refreshPublisher = { codec: kafka.codec, send: publisher.send, portions: openPortions() }
    for (const [provider, total] of [
      ['provider_09', 9_000],
      ['provider_11', 10],
    ] as const) {
      const cut = new AbortController()
      const entries = function* () {
        for (let i = 0; i < total; i++) {
          if (i === total / 2) cut.abort()
          yield { market_hash_name: `item ${i}`, price: 1, quantity: 1 }
        }
      }
      const refresh = { kind: 'refresh' as const, observedAt: 1, currency: 'USD', entries: entries() }
      const published = await publishRefresh(refreshPublisher, { provider, side: 'ask' }, refresh, noRates, cut.signal)
      expect(published).to.deep.equal({ result: 'cut' })
      const records = await recordsOf('quotes', provider)
      expect(records.map(({ value }) => value.index)).to.deep.equal(records.map((_, i) => i))
      expect(records.length).to.be.below(total)
      expect(records.some(({ event }) => event === 'RefreshCompleted')).to.equal(false)
    }
  })

  it('publishes recorded files in time order; spoiled entries and files go where they belong', async () => {
    const dir = mkdtempSync(join(platform.config.stateDir, 'recorded-'))
    const put = (name: string, content: Buffer) => writeFileSync(join(dir, name), content)
    const noise = Object.fromEntries(
      Array.from({ length: 3_000 }, (_, i) => [`item ${i} ${(i * 7_919) % 1_000_003}`, 1]),
    )
    put('z.json.gz', recorded('2026-03-01T00:00:00Z', { a: 1, b: [{ price: 2, quantity: 3, phase: 'Ruby' }] }))
    put('m.json.gz', recorded('2026-03-02T00:00:00Z', noise).subarray(0, 9_000))
    put('k.json.gz', recorded('2026-03-03T00:00:00Z', { a: 1 }, 'QQQ'))
    put('a.json', Buffer.from('{"refreshed_at":"2026-03-04T00:00:00Z","prices":{"a":NaN,"b":-5,"c":7,"d":"abc","":1}}'))
    const environment = { PATH: process.env.PATH, ...platform.environment }
    const words = ['ingest', 'recorded', '--provider', 'provider_13', '--dir', dir, '--side', 'bid']
    const { code, stderr } = await runCommand(words, environment)
    expect({ code, said: stderr.trimEnd().split('\n').slice(-2) }, stderr).to.deep.equal({
      code: 65,
      said: [
        'published 2 refreshes with 3 observations, 4 entries rejected, 2 files failed',
        'marketlog: 2 files could not be read',
      ],
    })
    // The log shows a transaction some time after it was committed.
    const records = await eventually(async () => {
      const all = await recordsOf('bids', 'provider_13')
      return all.length >= 11 && all
    }, 'all records')
    expect(records.map(({ event, value }) => `${event} ${value.index ?? value.count ?? value.reason}`)).to.deep.equal([
      ...['BidObserved 0', 'BidObserved 1', 'RefreshCompleted 2'],
      ...['RefreshFailed truncated', 'RefreshFailed unknown_currency'],
      ...['ObservationRejected 0', 'ObservationRejected 1', 'BidObserved 2'],
      ...['ObservationRejected 3', 'ObservationRejected 4', 'RefreshCompleted 5'],
    ])
    expect(records[3]?.value.observed_at).to.equal(Date.UTC(2026, 2, 2))
    const rejected = records.filter(({ event }) => event === 'ObservationRejected').map(({ value }) => value.reason)
    expect(rejected).to.deep.equal(['price_not_number', 'price_not_positive', 'price_not_number', 'name_missing'])
    const perFile = stderr.split('\n').filter(line => /: (truncated|unknown_currency|4 entries rejected): /.test(line))
    expect(perFile, stderr).to.have.length(3)
  })

  it('publishes exchange rates at the start and on a change, and keeps them while their source fails', async () => {
    const bodies = [
      '{"date":"2026-03-01","usd":{"usd":1,"eur":0.90}}',
      '',
      '{"date":"2026-03-02","usd":{"usd":1,"eur":0.91}}',
    ]
    let asked = 0
    const url = await serve((_, response) => {
      const body = bodies[Math.min(asked++, 2)]
      response.writeHead(body ? 200 : 404).end(body)
    })
    const before = (await recordsOf('fx')).length
    const stop = new AbortController()
    const { log } = platform
    const remote = remoteRates(`${url}/usd.json`)
    const rates = await keepRates({ remote, log, everyMs: 20, signal: stop.signal })
    const destination = { codec: kafka.codec, send: publisher.send }
    const publishing = publishRates({ rates, publisher: destination, stopping: stop.signal, log })
    expect(rates.current().rateOf('EUR')?.text).to.equal('0.90')
    await eventually(() => rates.current().rateOf('EUR')?.text === '0.91' && asked >= 5, 'the changed rate')
    await eventually(async () => (await recordsOf('fx')).length >= before + 2, 'both tables')
    stop.abort()
    await rates.closed
    await publishing
    const published = (await recordsOf('fx')).slice(before)
    expect(published.map(({ value }) => ({ ...value, rates: { ...value.rates } }))).to.deep.equal([
      { as_of: Date.UTC(2026, 2, 1), source: `${url}/usd.json`, rates: { USD: '1', EUR: '0.90' } },
      { as_of: Date.UTC(2026, 2, 2), source: `${url}/usd.json`, rates: { USD: '1', EUR: '0.91' } },
    ])
  })
})
