/**
 * Stores and topics that are no longer what they were, each in turn under a platform that runs on: a table dropped, ClickHouse killed
 * again and again, its disk set back and wiped, Redis set back, wiped and away; a log that was cut off, one that expired unread. Then the drill
 * of services/README.md, "Backups": all servers are backed up while rounds come, lost and put back. Topics that were created again are
 * log-identity.test.ts' matter.
 *
 * While nothing is published, every answer is a 503 or the one of before. After each fault, and another round of the market, the views
 * equal the reference fold of what the log was given. The servers are this file's own.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'chai'
import type { ClickhouseWriter } from '#infra/clickhouse/clickhouse.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Redis } from '#infra/redis/redis.ts'
import type { ServerName } from '#infra/stack/native-start.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { DAY_MS, HOUR_MS } from '#schemas/values/instant.ts'
import { expireRecords } from '#test/fixtures/changed-topics.ts'
import { openSmallMarket, type SmallMarket } from '#test/fixtures/small-market.ts'
import { eventually } from '#test/harness/eventually.ts'
import { expectBalanced } from '#test/harness/ledger.ts'
import { ratesRecord } from '#test/harness/published-records.ts'
import { readTopic } from '#test/harness/read-topic.ts'
import { foldRefreshes, type GivenRefresh } from '#test/harness/reference-fold.ts'
import { writeRoomyTiers } from '#test/harness/roomy-tiers.ts'
import { type SeededRandom, seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { type Answers, openAnswers } from './answers.ts'
import { type Kept, keepRunning } from './keep-running.ts'
import { marketLedgers } from './side-ledgers.ts'

const VIEWS = 'candles history sales fx provider-health live-view alert-triggers'
const EDGE = 'api feed'
/** In the order in which they are backed up: what is derived of the log and what is written beside it before the log. */
const SERVERS: readonly ServerName[] = ['redis', 'clickhouse', 'postgres', 'kafka', 'schemaRegistry']
const CLICKHOUSE_KILLS = 20
const MAY_END = /"level":"fatal".*cannot go on/
const AWAY_MS = 10_000
const LIMIT_MS = 120_000
const ROUNDS = 3
const ROUND_EVERY_MS = 200
const VERIFIED = ['candles', 'history', 'sales', 'fx', 'provider-health', 'live-view']
/** Groups whose roles run here. */
const GROUPS = ['book', ...VIEWS.split(' ')]

function copyAll(from: string, to: string): void {
  mkdirSync(to, { recursive: true })
  const { status, stderr } = spawnSync('cp', ['-a', `${from}/.`, to], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${from} could not be copied: ${stderr}`)
}

describe('stores and topics that are no longer what they were', function () {
  this.timeout(600_000)
  const platform = useServers({ own: Object.fromEntries(SERVERS.map(name => [name, {}])) })
  let random: SeededRandom
  let kafka: KafkaConnection
  let redis: Redis
  let tables: ClickhouseWriter
  let market: SmallMarket
  let answers: Answers
  let book: Kept
  const kept: Kept[] = []
  const copies: string[] = []
  /** Refreshes and sales that the log was given and has lost. */
  const lost = new Set<unknown>()

  before('a platform with a market', async () => {
    random = seededRandom('stores and topics that are no longer what they were')
    kafka = platform.connect('ingest')
    redis = await platform.openRedis()
    tables = platform.openTables()
    market = await openSmallMarket(kafka)
    keep(VIEWS)
    book = keep('book')
    const edge = keep(EDGE)
    await eventually(() => kept.every(one => one.isReady()), 'all roles to be ready', LIMIT_MS)
    const rates = await platform.openPublisher(kafka, 'ingest')
    await rates.send([ratesRecord(kafka.codec, Date.now() - HOUR_MS, { EUR: '0.92' })])
    const item = `item_id=${market.items[0]?.item_id}`
    answers = openAnswers(await platform.newKey(), async () => edge.role()?.baseUrl(), {
      prices: '/v1/prices?limit=500',
      item: `/v1/prices?${item}`,
      bulk: 'POST /v1/prices',
      providers: '/v1/providers',
      candles: `/v1/prices/candles?interval=1h&${item}&start=${day(-2)}&end=${day(1)}`,
      history: `/v1/prices/history?${item}`,
      chart: `/v1/market/history/chart?${item}`,
      sales: `/v1/sales?${item}`,
      rates: '/v1/fx',
    })
    for (let round = 0; round < ROUNDS; round++) await market.publishRound()
    await settled()
  })
  after(async () => {
    await answers?.stop()
    for (const one of kept) await one.stop()
    await market?.close()
    for (const copy of copies) rmSync(copy, { recursive: true, force: true })
  })

  const day = (from: number): string => new Date(Date.now() + from * DAY_MS).toISOString().slice(0, 10)

  function keep(name: string): Kept {
    const tiers = writeRoomyTiers(platform.config.stateDir, { streamStarts: 'unlimited' })
    const start = () => platform.spawnRole(name, { MARKETLOG_TIERS: tiers })
    const one = keepRunning({ name, start, random: random.branch(), mayEnd: MAY_END })
    kept.push(one)
    return one
  }

  async function done(...words: string[]): Promise<void> {
    const { code, stderr } = await platform.command(...words)
    expect(code, `${words.join(' ')}: ${stderr}`).to.equal(0)
  }
  /** Until `lag` says that a reader has stopped, and by which command it goes on. */
  const stops = (group: string, reason: string) =>
    eventually(
      async () => {
        const { code, stdout, stderr } = await platform.command('lag')
        return code === 1 && new RegExp(reason, 's').test(`${stdout}${stderr}`)
      },
      `${group} to stop`,
      LIMIT_MS,
    )

  /** A server's disk at one moment, as a snapshot of its volume has it. */
  function copyOf(name: ServerName): string {
    const server = platform.own(name)
    const copy = mkdtempSync(join(tmpdir(), `marketlog-copy-${name}-`))
    copies.push(copy)
    server.freeze()
    copyAll(server.storeDir, copy)
    server.thaw()
    return copy
  }
  /** Gives a server the disk of a copy, or an empty one. */
  async function putBack(name: ServerName, copy?: string): Promise<void> {
    const server = platform.own(name)
    await server.kill()
    rmSync(server.storeDir, { recursive: true, force: true })
    if (copy !== undefined) copyAll(copy, server.storeDir)
    await server.start()
  }

  /** Resolves once every view equals the fold of what the log was given, and answers so. */
  async function settled(): Promise<void> {
    // What has stopped says so until it goes on.
    await eventually(() => platform.drained(GROUPS, LIMIT_MS).then(() => true), 'all to be drained', LIMIT_MS)
    await answers.whole(LIMIT_MS)
    const refreshes = market.refreshes.filter(refresh => !lost.has(refresh))
    const sales = market.sales.filter(sale => !lost.has(sale))
    const viewed = { refreshes, sales, expected: foldRefreshes(refreshes) }
    expectBalanced(await marketLedgers(kafka, { redis, tables }, viewed))
  }
  async function publishToLose({ sales: areSalesLost }: { sales: boolean }): Promise<void> {
    const [refreshes, sales] = [market.refreshes.length, market.sales.length]
    await market.publishRound()
    for (const refresh of market.refreshes.slice(refreshes)) lost.add(refresh)
    if (areSalesLost) for (const sale of market.sales.slice(sales)) lost.add(sale)
  }
  /** A fault while nothing is published: what is answered is right or refused, and of `refused` something is refused. */
  async function quiet(refused: readonly string[], fault: () => Promise<void>): Promise<void> {
    await answers.expectUnchanged(async () => {
      await fault()
      await settled()
    }, refused)
    await market.publishRound()
    await settled()
  }

  it('a table that was dropped is filled from the log', () =>
    quiet(['candles'], () => tables.command(`DROP TABLE ${tables.database}.candle_parts SYNC`)))

  it('a ClickHouse whose disk was set back has what it lacks read again', async () => {
    const copy = copyOf('clickhouse')
    await market.publishRound()
    await settled()
    await quiet(['candles', 'history', 'chart', 'sales'], () => putBack('clickhouse', copy))
  })

  it('a ClickHouse whose disk was wiped is filled from the log', () =>
    quiet(['candles', 'history', 'chart', 'sales'], () => putBack('clickhouse')))

  it(`a ClickHouse that is killed ${CLICKHOUSE_KILLS} times while rounds come has lost none`, async () => {
    for (let kills = 0; kills < CLICKHOUSE_KILLS; kills++) {
      const round = market.publishRound()
      await platform.own('clickhouse').kill()
      await round
      await platform.own('clickhouse').start()
    }
    await settled()
  })

  it('a Redis that was set back has what it lacks read again', async () => {
    const copy = copyOf('redis')
    await market.publishRound()
    await settled()
    await quiet(['prices'], () => putBack('redis', copy))
  })

  it('a Redis that was wiped is filled from the log: no answer was wrong meanwhile', () =>
    quiet(['prices', 'item', 'bulk', 'providers'], async () => {
      await redis.flushall()
    }))

  it('a Redis that was away for longer than its clients try has its writers back', () =>
    // What used to happen: the client gave up after eight seconds, and the views stopped for ten minutes.
    quiet(['prices'], async () => {
      await platform.own('redis').kill()
      await pause(AWAY_MS)
      await platform.own('redis').start()
    }))

  it('a log that was cut off stops the views that are beyond it until they are rebuilt', async () => {
    const copy = copyOf('kafka')
    await publishToLose({ sales: true })
    await platform.drained(GROUPS, LIMIT_MS)
    await putBack('kafka', copy)
    await market.reconnect()
    for (const view of ['candles', 'history', 'sales', 'provider-health']) {
      await stops(view, `the log ends at.*marketlog rebuild ${view}`)
      await done('rebuild', view)
    }
    await market.publishRound()
    await settled()
  })

  it('all servers that were backed up while rounds came, lost and put back have what the log had', async () => {
    const ending = new AbortController()
    const publishing = (async () => {
      while (!ending.signal.aborted) {
        await market.publishRound()
        await pause(ROUND_EVERY_MS)
      }
    })()
    const nextRound = async (): Promise<void> => {
      const begun = market.rounds() + 1
      await eventually(() => market.rounds() > begun, 'a round')
    }
    const since = market.refreshes.length
    await nextRound()
    const copies = new Map<ServerName, string>()
    for (const name of SERVERS) {
      copies.set(name, copyOf(name))
      await nextRound()
    }
    ending.abort()
    await publishing
    await Promise.all(SERVERS.map(name => putBack(name, copies.get(name))))
    await market.reconnect()
    const count = await noteLost(since)
    console.log(`      ${count.refreshes} refreshes and ${count.sales} sales came after the log was backed up`)
    expect(count.refreshes).to.be.above(0)
    await settled()
    await market.publishRound()
    await settled()
    for (const view of VERIFIED) await done('verify', view)
  })

  it('an input that expired unread stops the book until it is reset', async () => {
    await book.stop()
    await publishToLose({ sales: false })
    for (let partition = 0; partition < topics.quotes.partitions; partition++)
      await expireRecords(kafka, 'quotes', partition)
    book = keep('book')
    await stops('book', '\\d+ records from \\d+ to \\d+ have expired unread.*marketlog reset book')
    await done('reset', 'book')
    await market.publishRound()
    await settled()
  })

  /** Notes what the log does not hold of what was published since. */
  async function noteLost(since: number): Promise<{ refreshes: number; sales: number }> {
    const read = async (topic: TopicKey) => (await readTopic(kafka, topic)).map(({ value }) => value)
    const whole = new Set(
      (await read('quotes')).map(({ provider, refresh_id, count }) => [provider, refresh_id, count >= 0].join()),
    )
    const sold = new Set((await read('sales')).map(({ sale_id }) => sale_id))
    const isLost = ({ provider, refreshId }: GivenRefresh) => !whole.has([provider, refreshId, true].join())
    const refreshes = market.refreshes.slice(since).filter(isLost)
    const sales = market.sales.filter(sale => !sold.has(sale.sale_id) && !lost.has(sale))
    for (const one of [...refreshes, ...sales]) lost.add(one)
    return { refreshes: refreshes.length, sales: sales.length }
  }
})
