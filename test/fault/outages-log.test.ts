/**
 * The log's broker frozen, killed, and out of disk, while a market is published, ingested, read and followed.
 *
 * Only the broker, which is this file's own, is frozen and killed; the roles run on. Each fault waits until everything goes on
 * after the one before. At the end everything that the roles wrote is compared with the reference fold of what the log was
 * given: nothing lost, nothing doubled, each key in its order, also for a client of the feed.
 */
import { mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { openReader } from '#infra/clickhouse/clickhouse.ts'
import { loadCatalog } from '#infra/config/catalog.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Publisher } from '#infra/kafka/publisher.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { nameKey } from '#schemas/values/item-name.ts'
import type { LagReader } from '#services/cli/wait-for-views.ts'
import type { LeastOfMarket } from '#test/fixtures/seeded-market.ts'
import { leastOf, openSeededMarket } from '#test/fixtures/seeded-market.ts'
import { noteAbsence } from '#test/harness/absences.ts'
import { eventually } from '#test/harness/eventually.ts'
import { expectFigure } from '#test/harness/figures.ts'
import { expectBalanced, openLedger } from '#test/harness/ledger.ts'
import { mayMountDisks } from '#test/harness/own-server.ts'
import { givenOf, type PublishedRefresh } from '#test/harness/published-records.ts'
import { foldRefreshes } from '#test/harness/reference-fold.ts'
import { randomOf, seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { bookLedgers } from './book-ledgers.ts'
import { type Kept, keepRunning } from './keep-running.ts'
import { groupsDrained, lagOf } from './lag.ts'
import { type MarketLoad, startLoad } from './market-load.ts'
import { readRefreshesOfLog } from './refreshes-of-log.ts'
import { entryOfDelivered, openResumingClient, type ResumingClient } from './resuming-client.ts'
import { liveLedgers, tableLedgers } from './view-ledgers.ts'

const IS_LONG = process.env.FAULT === 'long'
const ROUNDS = IS_LONG ? 5 : 1
const FROZEN_MS: readonly [number, number] = IS_LONG ? [5_000, 60_000] : [5_000, 6_000]
const DOWN_MS: readonly [number, number] = IS_LONG ? [0, 20_000] : [0, 3_000]
const REST_MS: readonly [number, number] = IS_LONG ? [1_000, 8_000] : [500, 1_500]
const DISK_MEGABYTES = IS_LONG ? 512 : 256
const GOES_ON_MS = 60_000
const DRAIN_LIMIT_MS = 60_000
const BASE = fileURLToPath(new URL('../../infra/config/markets/base.json.gz', import.meta.url))
/** What ingest polls itself; the seeded market has the providers before them, and those with URLs are odd. */
const INGESTED = ['provider_30', 'provider_32']
const ROLES = ['book', 'live-view history candles', 'api feed', 'ingest']

describe('outages of the log', function () {
  this.timeout(IS_LONG ? 3_600_000 : 420_000)
  const mayFill = mayMountDisks()
  const platform = useServers({ catalog: 'whole', own: { kafka: mayFill ? { diskMegabytes: DISK_MEGABYTES } : {} } })
  const random = seededRandom('outages of the log')
  const newRandom = () => randomOf(random.integer(0, 2 ** 31))
  let kafka: KafkaConnection
  let publisher: Publisher
  let look: LagReader
  let load: MarketLoad
  let least: LeastOfMarket
  let client: ResumingClient
  let folder: string
  let baseUrl: string
  let key: string
  const kept: Kept[] = []

  before('a market in motion', async () => {
    folder = mkdtempSync(join(tmpdir(), 'marketlog-outages-'))
    kafka = platform.connect()
    publisher = await platform.openPublisher(kafka, 'ingest')
    look = await platform.openLagReader()
    const keep = (name: string) => kept.push(keepRunning({ name, random: newRandom(), start: () => start(name) }))
    const areReady = () => eventually(() => kept.every(one => one.isReady()), 'all roles to be ready')
    for (const name of ROLES.slice(0, -1)) keep(name)
    await areReady()
    baseUrl = (await kept[2]?.role()?.baseUrl()) ?? ''
    key = await platform.newKey()
    client = await openResumingClient({
      path: '/feed/prices?resume=true',
      key,
      random: newRandom(),
      gateways: () => [baseUrl],
    })
    const feeds = openSeededMarket(newRandom(), { items: 400, askProviders: 6, bidProviders: 3 })
    least = leastOf(feeds)
    load = startLoad({
      feeds,
      publisher,
      codec: kafka.codec,
      random: newRandom(),
      recordsPerSecond: 1_500,
      // While the broker does not answer, the backlog is unknown.
      backlog: () => lagOf(look, 'book').catch(() => 0),
    })
    // Last, so that the client receives all of it.
    keep('ingest')
    await areReady()
    await goesOn('the beginning')
  })
  after(async () => {
    await client?.stop()
    for (const one of kept) await one.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  function start(name: string) {
    if (name !== 'ingest') return platform.spawnRole(name)
    const feeds = INGESTED.map(provider => {
      const options = { factor: 0.9, coverage: 0.9, churn: 0.1, stock: 3, phases: false }
      return { provider, side: 'ask', connector: 'simulated', interval_ms: 1_000, options }
    })
    const file = join(folder, 'market.json')
    writeFileSync(file, JSON.stringify({ name: 'outages', base: BASE, seed: 7, items: 100, feeds }))
    return platform.spawnRole(name, { MARKET: file })
  }

  /** Resolves when the feed delivers what was published after this moment, of the test's own market and of ingest's. */
  async function goesOn(after: string): Promise<void> {
    const startedAt = performance.now()
    const [received, published] = [client.rows().length, load.published()]
    const isMoving = () => load.published() > published + 1_000 && client.rows().length > received
    await eventually(isMoving, `all to go on after ${after}`)
    const isIngesting = () =>
      client
        .rows()
        .slice(received)
        .some(({ key }) => INGESTED.some(each => key.includes(each)))
    await eventually(isIngesting, `ingest to go on after ${after}`)
    const value = (performance.now() - startedAt) / 1_000
    const what = `until all goes on after ${after}`
    expectFigure({ test: 'outages of the log', what, value, unit: 's', limit: { atMost: GOES_ON_MS / 1_000 } })
  }

  async function pricesStatus(): Promise<number> {
    const headers = { authorization: `Bearer ${key}` }
    const answer = await fetch(`${baseUrl}/v1/prices?limit=1`, { headers, signal: AbortSignal.timeout(5_000) })
    await answer.body?.cancel()
    return answer.status
  }

  /** Readiness and log of the roles that write name the server that does not answer and what to check. */
  async function saysWhy(): Promise<true> {
    for (const [name, who] of [
      ['book', 'the group book'],
      ['ingest', 'the writer ingest'],
    ] as const) {
      const role = kept.find(one => one.name === name)?.role()
      const answer = await fetch(`${await role?.operatorUrl()}/readyz`)
      const text = await answer.text()
      expect(answer.status, text).to.equal(503)
      const { kafka: brokers = [] } = platform.own('kafka').addresses
      expect(text).to.include(`Kafka at ${brokers.join(', ')} has not answered ${who}`)
      const said = role?.lines().findLast(line => line.includes(`answer ${who}`) || line.includes(`answered ${who}`))
      expect(said).to.match(/"level":"warn".*Check that a broker runs and that its disk has room/)
    }
    return true
  }

  const rest = () => pause(random.integer(...REST_MS))

  for (let round = 1; round <= ROUNDS; round++) {
    it(`end when a broker that was frozen for a while goes on: the feed delivers again (${round})`, async () => {
      await rest()
      const frozenMs = random.integer(...FROZEN_MS)
      platform.own('kafka').freeze()
      await pause(frozenMs)
      expect(await pricesStatus(), 'prices without a broker').to.equal(200)
      platform.own('kafka').thaw()
      await goesOn(`${(frozenMs / 1000).toFixed(1)} s of SIGSTOP`)
    })

    it(`end when a broker that was killed is started again: the feed delivers again (${round})`, async () => {
      await rest()
      const downMs = random.integer(...DOWN_MS)
      await platform.own('kafka').kill()
      await pause(downMs)
      await platform.own('kafka').start()
      await goesOn(`SIGKILL, ${(downMs / 1000).toFixed(1)} s and a start`)
    })

    it(`end when a broker that ran out of disk has room again: the feed delivers again (${round})`, async () => {
      if (!mayFill) return noteAbsence('the right to mount a disk', 'no broker runs out of disk')
      await rest()
      const server = platform.own('kafka')
      const filler = join(server.storeDir, 'filler')
      const { bavail, bsize } = statfsSync(server.storeDir)
      const left = random.integer(64, 512) * 1024
      writeFileSync(filler, Buffer.alloc(Math.max(0, bavail * bsize - left)))
      await server.end(GOES_ON_MS)
      expect(server.log()).to.include('No space left on device')
      await eventually(() => saysWhy(), 'book and ingest to say what is wrong')
      expect(await pricesStatus(), 'prices without a broker').to.equal(200)
      rmSync(filler)
      await server.start()
      await goesOn(`${Math.round(left / 1024)} kB of disk, its end, room, and a start`)
    })
  }

  it('lose, double and misplace nothing, anywhere', async () => {
    const given = await load.end()
    await kept[3]?.stop()
    await groupsDrained(look, ['book', 'live-view', 'history', 'candles'], DRAIN_LIMIT_MS)
    const refreshes = [...given, ...(await ingested())]
    const expected = foldRefreshes(refreshes.map(givenOf))
    const asks = expected.changes.filter(({ side }) => side === 'ask').map(entryOfDelivered)
    const hasAll = () => client.rows().length >= asks.length
    await eventually(hasAll, 'the feed to deliver all').catch(() => undefined)
    const { ledgers } = await bookLedgers(kafka, refreshes, undefined, least)
    const redis = await platform.openRedis()
    const database = databaseName(platform.namespace)
    const reader = openReader(platform.config.servers.clickhouseReadOnly, { database, name: 'test' })
    Object.assign(
      ledgers,
      await liveLedgers(redis, platform.namespace, expected, least),
      await tableLedgers(reader, expected, least),
    )
    await reader.close()
    ledgers['rows of a client of the feed'] = openLedger(asks, client.rows(), least.asks)
    console.log(
      `      ${refreshes.length} refreshes, ${expected.changes.length} changes, ${client.connections()} streams`,
    )
    expectBalanced(ledgers)
    expect(kept.map(one => `${one.name}: ${one.endedByThemselves()}`)).to.deep.equal(ROLES.map(name => `${name}: 0`))
  })

  /** What ingest brought to the log, as the log itself holds it. */
  async function ingested(): Promise<PublishedRefresh[]> {
    const ids = new Map(loadCatalog().map(item => [nameKey(item.market_hash_name, item.phase), item.item_id]))
    const all = await readRefreshesOfLog(kafka, name => ids.get(nameKey(name, null)))
    return all.filter(({ provider }) => INGESTED.includes(provider))
  }
})
