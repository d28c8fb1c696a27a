/**
 * ClickHouse, Postgres and the schema registry gone for a while, under a market in motion: what does not need them does not
 * notice, what needs them refuses and comes back, and what was missed is made up for.
 *
 * Only the three servers, which are this file's own, go away; the roles run on. A price that changes all the time shows how
 * fresh REST and feed are meanwhile. At the end every row of the views is compared with the reference fold.
 * `FAULT=long` keeps ClickHouse away for five minutes and asks for a catch-up at ten times the live rate.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'chai'
import { type ClickhouseReader, openReader } from '#infra/clickhouse/clickhouse.ts'
import { loadCatalog } from '#infra/config/catalog.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Publisher } from '#infra/kafka/publisher.ts'
import { databaseName } from '#infra/runtime/config.ts'
import type { LagReader } from '#services/cli/wait-for-views.ts'
import { STALLED_AFTER_MS } from '#streams/runner/progress-watch.ts'
import { DAYS_BACK, type LeastOfMarket, leastOf, openSeededMarket } from '#test/fixtures/seeded-market.ts'
import { eventually } from '#test/harness/eventually.ts'
import { expectFigure } from '#test/harness/figures.ts'
import { expectBalanced } from '#test/harness/ledger.ts'
import { givenOf } from '#test/harness/published-records.ts'
import { foldRefreshes } from '#test/harness/reference-fold.ts'
import { writeRoomyTiers } from '#test/harness/roomy-tiers.ts'
import { randomOf, seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { type Canary, EVERY_MS, openCanary } from './canary.ts'
import { describeFreshness, type FreshPath } from './freshness-meter.ts'
import { type Kept, keepRunning } from './keep-running.ts'
import { groupsDrained, lagOf } from './lag.ts'
import { type MarketLoad, startLoad } from './market-load.ts'
import { liveLedgers, tableLedgers } from './view-ledgers.ts'

const IS_LONG = process.env.FAULT === 'long'
const CLICKHOUSE_DOWN_MS = IS_LONG ? 300_000 : 8_000
const OTHERS_DOWN_MS = IS_LONG ? 60_000 : 3_000
/** How many times faster than the market the tables must catch up; a short outage is mostly the start of the server. */
const CATCH_UP_TIMES = IS_LONG ? 10 : 1.2
/** Inserts come one by one and hold what waits, so parts are few; the server itself objects at 3,000. */
const PARTS_MOST = 60
const FRESH_MS = 5_000
const DRAIN_LIMIT_MS = 60_000
const POLL_MS = 100
const TABLE_WRITERS = 'history candles'
const TEST = 'outages of the stores'
const ROLES = [TABLE_WRITERS, 'book', 'live-view', 'api feed', 'accounts delivery']

describe(TEST, function () {
  this.timeout(IS_LONG ? 1_800_000 : 300_000)
  const platform = useServers({ catalog: 'whole', own: { clickhouse: {}, postgres: {}, schemaRegistry: {} } })
  const random = seededRandom('outages of the stores')
  const newRandom = () => randomOf(random.integer(0, 2 ** 31))
  let kafka: KafkaConnection
  let publisher: Publisher
  let look: LagReader
  let tables: ClickhouseReader
  let load: MarketLoad
  let least: LeastOfMarket
  let canary: Canary
  let baseUrl: string
  let key: string
  const kept: Kept[] = []

  before('a market in motion', async () => {
    const { config } = platform
    kafka = platform.connect()
    publisher = await platform.openPublisher(kafka, 'ingest')
    look = await platform.openLagReader()
    tables = openReader(config.servers.clickhouse, { database: databaseName(config.namespace), name: 'test' })
    const tiers = writeRoomyTiers(config.stateDir)
    const start = (name: string) => platform.spawnRole(name, { MARKETLOG_TIERS: tiers })
    for (const name of ROLES) {
      const mayEnd = name === TABLE_WRITERS ? { mayEnd: /does not get on/ } : {}
      kept.push(keepRunning({ name, random: newRandom(), start: () => start(name), ...mayEnd }))
    }
    key = await platform.newKey()
    await eventually(() => kept.every(one => one.isReady()), 'all roles to be ready')
    baseUrl = (await kept[3]?.role()?.baseUrl()) ?? ''
    const feeds = openSeededMarket(newRandom(), { items: 400, askProviders: 6, bidProviders: 3 })
    least = leastOf(feeds)
    load = startLoad({
      feeds,
      publisher,
      codec: kafka.codec,
      random: newRandom(),
      recordsPerSecond: 1_500,
      backlog: () => lagOf(look, 'book'),
    })
    const { market_hash_name: name = '', item_id: itemId = 0 } = loadCatalog().find(({ phase }) => phase === null) ?? {}
    canary = await openCanary({
      publisher,
      codec: kafka.codec,
      baseUrl,
      key,
      provider: 'provider_33',
      item: { name, itemId },
      from: Date.now() - DAYS_BACK * 86_400_000,
    })
    await load.wave()
  })
  after(async () => {
    for (const one of kept) await one.stop()
    await tables?.close()
  })

  const statusOf = async (path: string): Promise<number> => {
    const answer = await fetch(baseUrl + path, { headers: { authorization: `Bearer ${key}` } })
    await answer.body?.cancel()
    return answer.status
  }
  const becomes = (path: string, status: number) =>
    eventually(async () => (await statusOf(path)) === status, `${path} to answer ${status}`)
  /** Asks for as many values as the time brings when each is as old as is allowed. */
  const expectFresh = (during: string, ms: number, paths: readonly FreshPath[]): void => {
    const freshness = canary.taken(Math.max(1, Math.floor(ms / (FRESH_MS + EVERY_MS))))
    console.log(`      ${during}: ${describeFreshness(freshness)}`)
    for (const path of paths) {
      const what = `${path === 'restMs' ? 'until REST has a price' : 'until the feed has a price'}, ${during}`
      expectFigure({ test: TEST, what, value: freshness[path] / 1_000, unit: 's', limit: { atMost: FRESH_MS / 1_000 } })
    }
  }

  it('ClickHouse: the live path is unharmed, then the tables catch up in few parts', async () => {
    const candles = '/v1/prices/candles?item_id=1&interval=1h'
    await becomes(candles, 200)
    canary.discard()
    await platform.own('clickhouse').kill()
    const downAt = performance.now()
    await becomes(candles, 503)
    await pause(CLICKHOUSE_DOWN_MS - (performance.now() - downAt))
    expectFresh('ClickHouse away', CLICKHOUSE_DOWN_MS, ['restMs', 'feedMs'])
    const waiting = await lagOf(look, 'history')
    expect(waiting, 'records that wait').to.be.above(0)
    await platform.own('clickhouse').start()
    const awayS = (performance.now() - downAt) / 1_000
    const { seconds, parts } = await catchUp(waiting / awayS)
    const times = awayS / seconds + 1
    console.log(
      `      away for ${awayS.toFixed(0)} s, ${waiting} records waited, made up for in ${seconds.toFixed(1)} s: ` +
        `${times.toFixed(1)} times the live rate, at most ${parts} parts in a partition of a table`,
    )
    expect(parts).to.be.below(PARTS_MOST)
    const what = 'catch-up of the tables, of the live rate'
    expectFigure({ test: TEST, what, value: times, unit: 'times', limit: { atLeast: CATCH_UP_TIMES } })
    await becomes(candles, 200)
  })

  /** Until no more waits than a second brings. */
  async function catchUp(perSecond: number): Promise<{ seconds: number; parts: number }> {
    const startedAt = performance.now()
    let parts = 0
    const isThere = async (): Promise<boolean> => {
      parts = Math.max(parts, await mostParts())
      const waiting = Math.max(await lagOf(look, 'history'), await lagOf(look, 'candles'))
      return waiting <= Math.max(perSecond, 1)
    }
    while (!(await isThere())) {
      if (performance.now() - startedAt > DRAIN_LIMIT_MS) throw new Error('the tables do not catch up')
      await pause(POLL_MS)
    }
    return { seconds: (performance.now() - startedAt) / 1_000, parts }
  }

  async function mostParts(): Promise<number> {
    const counts = await tables.rows<{ parts: number }>(
      `SELECT count() AS parts FROM system.parts WHERE active AND database = {database:String} GROUP BY table, partition`,
      { database: tables.database },
    )
    return Math.max(0, ...counts.map(({ parts }) => parts))
  }

  it('the schema registry: running roles go on', async () => {
    canary.discard()
    await platform.own('schemaRegistry').kill()
    await pause(OTHERS_DOWN_MS)
    expectFresh('the registry away', OTHERS_DOWN_MS, ['restMs', 'feedMs'])
    await platform.own('schemaRegistry').start()
  })

  it('Postgres: what needs it refuses and comes back, the live path and open streams go on', async () => {
    canary.discard()
    canary.watch(['feedMs'])
    await platform.own('postgres').kill()
    const downAt = performance.now()
    for (const path of ['/v1/prices?limit=1', '/v1/account/key', '/v1/portfolio']) await becomes(path, 503)
    const redirect = await fetch(`${baseUrl}/r/provider_01/1`, { redirect: 'manual' })
    expect(redirect.status, 'what needs no key').to.be.oneOf([302, 404])
    await pause(Math.max(0, OTHERS_DOWN_MS - (performance.now() - downAt)))
    await platform.own('postgres').start()
    for (const path of ['/v1/prices?limit=1', '/v1/account/key', '/v1/portfolio']) await becomes(path, 200)
    await load.wave()
    expectFresh('Postgres away', performance.now() - downAt, ['feedMs'])
    canary.watch(['restMs', 'feedMs'])
  })

  it('lose, double and misplace nothing', async () => {
    await canary.stop()
    const refreshes = [...(await load.end()), ...canary.refreshes]
    await groupsDrained(look, ['book', 'live-view', 'history', 'candles'], DRAIN_LIMIT_MS)
    const expected = foldRefreshes(refreshes.map(givenOf))
    const redis = await platform.openRedis()
    const ledgers = {
      ...(await liveLedgers(redis, platform.namespace, expected, least)),
      ...(await tableLedgers(tables, expected, least)),
    }
    console.log(`      ${refreshes.length} refreshes, ${expected.changes.length} changes`)
    expectBalanced(ledgers)
    const ends = Object.fromEntries(kept.map(one => [one.name, one.endedByThemselves()]))
    const { [TABLE_WRITERS]: ofWriters, ...others } = ends
    expect(Object.values(others), JSON.stringify(ends)).to.deep.equal(ROLES.slice(1).map(() => 0))
    // A role that commits nothing while records wait restarts itself, once for each such time at most.
    expect(ofWriters).to.be.at.most(Math.floor(CLICKHOUSE_DOWN_MS / STALLED_AFTER_MS))
  })
})
