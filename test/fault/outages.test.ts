/**
 * Servers gone for a while under a market in motion, one after the other: ClickHouse, the schema registry, Postgres, then the log's broker
 * frozen, killed and out of disk; and members of groups that come and go. What does not need a server does not notice, what needs it
 * refuses and comes back, and what was missed is made up for.
 *
 * The servers are this file's own; the roles run on. Each fault waits until everything goes on after the one before. At the end everything
 * that the roles wrote is compared with the reference fold of what the log was given: nothing lost, nothing doubled, each key in its order,
 * also for a client of the feed. `FAULT=long` lasts longer.
 */
import { mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import { loadCatalog } from '#infra/config/catalog.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { LagReader } from '#infra/kafka/lag.ts'
import { nameKey } from '#schemas/values/item-name.ts'
import { STALLED_AFTER_MS } from '#streams/runner/progress-watch.ts'
import { openSeededMarket } from '#test/fixtures/seeded-market.ts'
import { noteAbsence } from '#test/harness/absences.ts'
import { eventually } from '#test/harness/eventually.ts'
import { expectBalanced, expectFigure, openLedger } from '#test/harness/ledger.ts'
import { mayMountDisks } from '#test/harness/own-server.ts'
import { givenOf, type PublishedRefresh } from '#test/harness/published-records.ts'
import { foldRefreshes } from '#test/harness/reference-fold.ts'
import { writeRoomyTiers } from '#test/harness/roomy-tiers.ts'
import { type SeededRandom, seededRandom } from '#test/harness/seeded-random.ts'
import type { StartedRoles } from '#test/harness/start-roles.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { bookLedgers } from './book-ledgers.ts'
import { type Kept, keepRunning } from './keep-running.ts'
import { groupsDrained, lagOf, type MarketLoad, startLoad } from './market-load.ts'
import { askPrices } from './price-reader.ts'
import { readRefreshesOfLog } from './refreshes-of-log.ts'
import { entryOfDelivered, openResumingClient, type ResumingClient } from './resuming-client.ts'
import { liveLedgers, tableLedgers } from './view-ledgers.ts'

const IS_LONG = process.env.FAULT === 'long'
const CLICKHOUSE_DOWN_MS = IS_LONG ? 300_000 : 8_000
const OTHERS_DOWN_MS = IS_LONG ? 60_000 : 3_000
/** Inserts come one by one and hold what waits, so parts are few; the server itself objects at 3,000. */
const PARTS_MOST = 60
const STORM_MS = IS_LONG ? 180_000 : 18_000
const MOVE_EVERY_MS = 3_000
const MEMBERS_MORE = 3
const ROUNDS = IS_LONG ? 5 : 1
const FROZEN_MS: readonly [number, number] = IS_LONG ? [5_000, 60_000] : [5_000, 6_000]
const DOWN_MS: readonly [number, number] = IS_LONG ? [0, 20_000] : [0, 3_000]
const REST_MS: readonly [number, number] = IS_LONG ? [1_000, 8_000] : [500, 1_500]
const DISK_MEGABYTES = IS_LONG ? 512 : 256
/** A price is that old at most where what it needs is there, and all goes on so soon after an outage of the log. */
const [FRESH_S, GOES_ON_S] = [5, 60]
const DRAIN_LIMIT_MS = 60_000
const BASE = fileURLToPath(new URL('../../infra/config/markets/base.json.gz', import.meta.url))
/** Polled by ingest itself; the seeded market has the providers before them, and those with URLs are odd. */
const INGESTED = ['provider_30', 'provider_32']
const TABLE_WRITERS = 'history candles'
const EDGE = 'api feed'
const ROLES = [TABLE_WRITERS, 'book', 'live-view', EDGE, 'alerts', 'ingest']
const TEST = 'outages'

describe('outages', function () {
  this.timeout(IS_LONG ? 5_400_000 : 600_000)
  const mayFill = mayMountDisks()
  const kafkaServer = mayFill ? { diskMegabytes: DISK_MEGABYTES } : {}
  const own = { kafka: kafkaServer, clickhouse: {}, postgres: {}, schemaRegistry: {} }
  const platform = useServers({ catalog: 'whole', own })
  const random = seededRandom(TEST)
  let kafka: KafkaConnection
  let look: LagReader
  let tables: ClickhouseReader
  let load: MarketLoad
  let client: ResumingClient
  let folder: string
  let baseUrl: string
  let key: string
  const kept = new Map<string, Kept>()

  before('a market in motion', async () => {
    folder = mkdtempSync(join(tmpdir(), 'marketlog-outages-'))
    kafka = platform.connect()
    look = await platform.openLagReader()
    tables = platform.openTables()
    for (const name of ROLES) if (name !== 'ingest') keep(name)
    await areReady()
    baseUrl = (await kept.get(EDGE)?.role()?.baseUrl()) ?? ''
    key = await platform.newKey()
    const path = '/feed/prices?resume=true'
    const streamKey = await platform.newKey()
    client = await openResumingClient({ path, key: streamKey, random: random.branch(), gateways: () => [baseUrl] })
    const feeds = openSeededMarket(random.branch(), { items: 400, askProviders: 6, bidProviders: 3 })
    load = startLoad({
      feeds,
      codec: kafka.codec,
      random: random.branch(),
      recordsPerSecond: 1_500,
      publisher: await platform.openPublisher(kafka, 'ingest'),
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
    for (const one of kept.values()) await one.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  const areReady = () => eventually(() => [...kept.values()].every(one => one.isReady()), 'all roles to be ready')
  function keep(name: string): void {
    const mayEnd = name === TABLE_WRITERS ? { mayEnd: /does not get on/ } : {}
    const environment = { MARKETLOG_TIERS: writeRoomyTiers(platform.config.stateDir), ...marketOf(name) }
    const start = () => platform.spawnRole(name, environment)
    kept.set(name, keepRunning({ name, random: random.branch(), start, ...mayEnd }))
  }
  function marketOf(name: string): { MARKET?: string } {
    if (name !== 'ingest') return {}
    const options = { factor: 0.9, coverage: 0.9, churn: 0.1, stock: 3, phases: false }
    const feeds = INGESTED.map(provider => ({
      provider,
      side: 'ask',
      connector: 'simulated',
      interval_ms: 1_000,
      options,
    }))
    const file = join(folder, 'market.json')
    writeFileSync(file, JSON.stringify({ name: 'outages', base: BASE, seed: 7, items: 100, feeds }))
    return { MARKET: file }
  }

  /** Resolves when the feed, and REST where it is asked, has a price that a marketplace shows only from now on. */
  async function isFresh(when: string, atMostS: number, paths: readonly ('feed' | 'REST')[]): Promise<void> {
    const [startedAt, from] = [performance.now(), Date.now()]
    const row = await eventually(
      () => client.rows().findLast(({ key, what }) => isIngested(key) && Number(what.split(' ').at(-1)) >= from),
      `a new price in the feed, ${when}`,
    )
    const [, provider, itemId] = row.key.split('|')
    const answered = async (): Promise<boolean> => {
      const { rows = [] } = await askPrices(baseUrl, key, Number(itemId))
      return rows.some(one => one.provider === provider && one.seenAt >= from)
    }
    if (paths.includes('REST')) await eventually(answered, `its answer by REST, ${when}`)
    const value = (performance.now() - startedAt) / 1_000
    const what = `until ${paths.join(' and ')} have a price, ${when}`
    expectFigure({ test: TEST, what, value, unit: 's', limit: { atMost: atMostS } })
  }
  const isIngested = (row: string): boolean => INGESTED.some(provider => row.includes(provider))

  async function goesOn(after: string): Promise<void> {
    const published = load.published()
    await eventually(() => load.published() > published + 1_000, `the market to go on after ${after}`)
    await isFresh(`after ${after}`, GOES_ON_S, ['feed', 'REST'])
  }

  const statusOf = async (path: string): Promise<number> => {
    const headers = { authorization: `Bearer ${key}` }
    const answer = await fetch(baseUrl + path, { headers, signal: AbortSignal.timeout(5_000) })
    await answer.body?.cancel()
    return answer.status
  }
  const becomes = (path: string, status: number) =>
    eventually(async () => (await statusOf(path)) === status, `${path} to answer ${status}`)

  it('of ClickHouse harm nothing live, and the tables catch up in few parts', async () => {
    const candles = '/v1/prices/candles?item_id=1&interval=1h'
    await becomes(candles, 200)
    await platform.own('clickhouse').kill()
    const downAt = performance.now()
    await becomes(candles, 503)
    await isFresh('ClickHouse away', FRESH_S, ['feed', 'REST'])
    await pause(Math.max(0, CLICKHOUSE_DOWN_MS - (performance.now() - downAt)))
    const waiting = await lagOf(look, 'history')
    expect(waiting, 'records that wait').to.be.above(0)
    await platform.own('clickhouse').start()
    const perSecond = (waiting * 1_000) / (performance.now() - downAt)
    let parts = 0
    // Until no more waits than a second brings.
    const isCaughtUp = async (): Promise<boolean> => {
      parts = Math.max(parts, await mostParts())
      const lags = [await lagOf(look, 'history'), await lagOf(look, 'candles')]
      return Math.max(...lags) <= Math.max(perSecond, 1)
    }
    await eventually(isCaughtUp, 'the tables to catch up')
    expect(parts).to.be.below(PARTS_MOST)
    await becomes(candles, 200)
  })

  async function mostParts(): Promise<number> {
    const counts = await tables.rows<{ parts: number }>(
      'SELECT count() AS parts FROM system.parts WHERE active AND database = {database:String} GROUP BY table, partition',
      { database: tables.database },
    )
    return Math.max(0, ...counts.map(({ parts }) => parts))
  }

  it('of the schema registry are not noticed by roles that run', async () => {
    await platform.own('schemaRegistry').kill()
    await pause(OTHERS_DOWN_MS)
    await isFresh('the registry away', FRESH_S, ['feed', 'REST'])
    await platform.own('schemaRegistry').start()
  })

  it('of Postgres are refused where it is needed; the live path and open streams go on', async () => {
    const needed = ['/v1/prices?limit=1', '/v1/account/key', '/v1/portfolio']
    await platform.own('postgres').kill()
    const downAt = performance.now()
    for (const path of needed) await becomes(path, 503)
    const redirect = await fetch(`${baseUrl}/r/provider_01/1`, { redirect: 'manual' })
    expect(redirect.status, 'what needs no key').to.be.oneOf([302, 404])
    await isFresh('Postgres away', FRESH_S, ['feed'])
    await pause(Math.max(0, OTHERS_DOWN_MS - (performance.now() - downAt)))
    await platform.own('postgres').start()
    for (const path of needed) await becomes(path, 200)
  })

  it('of members, which come and go, revoke every partition each time, and all goes on', async () => {
    const until = performance.now() + STORM_MS
    const stories = await Promise.all(
      (['book', 'live-view'] as const).map(group => storm(group, random.branch(), until)),
    )
    console.log(`      ${stories.join('; ')}`)
    await goesOn('members that came and went')
  })

  /** Members of a group come and go until the storm is over; resolves with how often each happened. */
  async function storm(group: 'book' | 'live-view', random: SeededRandom, until: number): Promise<string> {
    const members: StartedRoles[] = []
    const moves = { joined: 0, left: 0 }
    for (let next = performance.now(); next < until; next += MOVE_EVERY_MS) {
      await pause(Math.max(0, next - performance.now()))
      const isJoin = members.length === 0 || (members.length < MEMBERS_MORE && random.chance(0.5))
      if (isJoin) members.push(await platform.startRoles([group]))
      else await members.splice(random.integer(0, members.length - 1), 1)[0]?.stop()
      moves[isJoin ? 'joined' : 'left'] += 1
    }
    for (const member of members) await member.stop()
    return `${group}: ${moves.joined} joined and ${moves.left} left`
  }

  /** Readiness and log of the roles that write name the server that does not answer and what to check. */
  async function saysWhy(): Promise<true> {
    for (const [name, who] of [
      ['book', 'the group book'],
      ['ingest', 'the writer ingest'],
    ] as const) {
      const role = kept.get(name)?.role()
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
    it(`of a broker end when one that was frozen for a while goes on (${round})`, async () => {
      await rest()
      platform.own('kafka').freeze()
      await pause(random.integer(...FROZEN_MS))
      expect(await statusOf('/v1/prices?limit=1'), 'prices without a broker').to.equal(200)
      platform.own('kafka').thaw()
      await goesOn('SIGSTOP')
    })

    it(`of a broker end when one that was killed is started again (${round})`, async () => {
      await rest()
      await platform.own('kafka').kill()
      await pause(random.integer(...DOWN_MS))
      await platform.own('kafka').start()
      await goesOn('SIGKILL and a start')
    })

    it(`of a broker end when one that ran out of disk has room again (${round})`, async () => {
      if (!mayFill) return noteAbsence('the right to mount a disk', 'no broker runs out of disk')
      await rest()
      const server = platform.own('kafka')
      const filler = join(server.storeDir, 'filler')
      const { bavail, bsize } = statfsSync(server.storeDir)
      try {
        writeFileSync(filler, Buffer.alloc(Math.max(0, bavail * bsize - random.integer(64, 512) * 1024)))
      } catch (error) {
        // The broker has written more than was to be left: its disk is full already.
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
      }
      await server.end(GOES_ON_S * 1_000)
      expect(server.log()).to.include('No space left on device')
      await eventually(saysWhy, 'book and ingest to say what is wrong')
      expect(await statusOf('/v1/prices?limit=1'), 'prices without a broker').to.equal(200)
      rmSync(filler)
      await server.start()
      await goesOn('a full disk, its end, room, and a start')
    })
  }

  it('lose, double and misplace nothing, anywhere', async () => {
    const given = await load.end()
    await kept.get('ingest')?.stop()
    await groupsDrained(look, ['book', 'live-view', 'history', 'candles'], DRAIN_LIMIT_MS)
    const refreshes = [...given, ...(await ingested())]
    const expected = foldRefreshes(refreshes.map(givenOf))
    const asks = expected.changes.filter(({ side }) => side === 'ask').map(entryOfDelivered)
    await eventually(() => client.rows().length >= asks.length, 'the feed to deliver all').catch(() => undefined)
    console.log(
      `      ${refreshes.length} refreshes, ${expected.changes.length} changes, ${client.connections()} streams`,
    )
    expectBalanced({
      ...(await bookLedgers(kafka, refreshes)),
      ...(await liveLedgers(await platform.openRedis(), platform.namespace, expected)),
      ...(await tableLedgers(tables, expected)),
      'rows of a client of the feed': openLedger(asks, client.rows()),
    })
    const ends = Object.fromEntries([...kept].map(([name, one]) => [name, one.endedByThemselves()]))
    const { [TABLE_WRITERS]: ofWriters, ...others } = ends
    expect(Object.values(others), JSON.stringify(ends)).to.deep.equal(ROLES.slice(1).map(() => 0))
    // A role that commits nothing while records wait restarts itself, once for each such time at most.
    expect(ofWriters).to.be.at.most(Math.floor(CLICKHOUSE_DOWN_MS / STALLED_AFTER_MS))
  })

  /** Brought to the log by ingest, as the log itself holds it. */
  async function ingested(): Promise<PublishedRefresh[]> {
    const ids = new Map(loadCatalog().map(item => [nameKey(item.market_hash_name, item.phase), item.item_id]))
    const all = await readRefreshesOfLog(kafka, name => ids.get(nameKey(name, null)))
    return all.filter(({ provider }) => INGESTED.includes(provider))
  }
})
