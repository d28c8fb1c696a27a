/**
 * The live view under kill on a Redis that fails over and moves its slots: nothing is lost, and refusals are counted and end. Two processes of
 * `live-view` are killed and frozen while a seeded market is published and prices are read; meanwhile masters of Redis are killed, replaced
 * and started again, and in the Cluster slots of the view move.
 */
import { expect } from 'chai'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { LagReader } from '#infra/kafka/lag.ts'
import type { Publisher } from '#infra/kafka/publisher.ts'
import { slotOf } from '#infra/redis/redis.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { headKey } from '#streams/live-view/table.ts'
import { type Feed, openSeededMarket } from '#test/fixtures/seeded-market.ts'
import { eventually } from '#test/harness/eventually.ts'
import { expectBalanced } from '#test/harness/ledger.ts'
import {
  type OwnRedisCluster,
  type OwnSentinels,
  openOwnRedisCluster,
  openOwnSentinels,
} from '#test/harness/own-redis.ts'
import { givenOf } from '#test/harness/published-records.ts'
import type { RedisProcess } from '#test/harness/redis-processes.ts'
import { type Expected, foldRefreshes } from '#test/harness/reference-fold.ts'
import { writeRoomyTiers } from '#test/harness/roomy-tiers.ts'
import { type SeededRandom, seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { describeKills, keepRunning, killInRounds, SAYS_WHY } from './keep-running.ts'
import { groupsDrained, lagOf, type MarketLoad, startLoad } from './market-load.ts'
import { askPrices, expectAvailable, type PriceReader, startPriceReader, wrongRows } from './price-reader.ts'
import { liveLedgers } from './view-ledgers.ts'

const IS_LONG = process.env.FAULT === 'long'
const FAILOVERS = IS_LONG ? 6 : 1
const KILLS = Number(process.env.KILLS ?? (IS_LONG ? 50 : 2))
const ITEMS = IS_LONG ? 2_000 : 1_000
const RECORDS_PER_SECOND = 4_000
/** One fault in so many is a freeze. */
const FREEZE_EACH = IS_LONG ? 5 : 2
/** A slot of the view and some beside it. */
const SLOTS_MOVED = IS_LONG ? 200 : 40
const DRAIN_LIMIT_MS = 60_000
const FAILOVER_LIMIT_MS = 30_000
/** A master is missed for a second and a half, then voted on; readers and writers come back within their own pauses. */
const UNAVAILABLE_S = 20
const REFUSED_MOST = 0.6

interface Harm {
  redis(): Promise<{ variables: Record<string, string>; close(): Promise<void> }>
  /** Once all of it is over, every server runs and follows. */
  harm(round: number): Promise<string>
}

function inCluster(): Harm {
  let cluster: OwnRedisCluster
  return {
    async redis() {
      cluster = await openOwnRedisCluster()
      return cluster
    },
    async harm(round) {
      const slot = slotOfView(round)
      const failover = await replaced(await cluster.masterOf(slot), () => cluster.masterOf(slot))
      await cluster.whole(FAILOVER_LIMIT_MS)
      const [from, startedAt] = [Math.min(slot, 16_383 - SLOTS_MOVED), performance.now()]
      const slots = Array.from({ length: SLOTS_MOVED }, (_, i) => from + i)
      await cluster.move(slots, await cluster.otherMaster(slot))
      await cluster.whole(FAILOVER_LIMIT_MS)
      return `${failover}, ${SLOTS_MOVED} slots moved in ${secondsSince(startedAt)} s`
    },
  }
}

/** The namespace has no part in it: the slot is that of its hash tag. */
const slotOfView = (round: number): number => slotOf(headKey(round % ITEM_PARTITIONS))

function underSentinels(): Harm {
  let sentinels: OwnSentinels
  return {
    async redis() {
      sentinels = await openOwnSentinels()
      return sentinels
    },
    async harm() {
      const failover = await replaced(await sentinels.master(), () => sentinels.master())
      await sentinels.whole(FAILOVER_LIMIT_MS)
      return failover
    },
  }
}

const secondsSince = (at: number): string => ((performance.now() - at) / 1_000).toFixed(1)

async function replaced(master: RedisProcess, masterNow: () => Promise<RedisProcess>): Promise<string> {
  const killedAt = performance.now()
  await master.kill()
  await eventually(async () => (await masterNow()) !== master, 'a replica to take over')
  const took = secondsSince(killedAt)
  await master.start()
  return `a master replaced after ${took} s`
}

for (const { title, harmOf } of [
  { title: 'the live view on a Redis Cluster', harmOf: inCluster },
  { title: 'the live view under Sentinels', harmOf: underSentinels },
])
  describe(title, function () {
    this.timeout(660_000 + KILLS * 45_000)
    const { redis, harm } = harmOf()
    const platform = useServers({ redis, catalog: 'whole' })
    let kafka: KafkaConnection
    let publisher: Publisher
    let look: LagReader
    before(async () => {
      kafka = platform.connect()
      publisher = await platform.openPublisher(kafka, 'ingest')
      look = await platform.openLagReader()
    })

    function publish(random: SeededRandom, feeds: readonly Feed[]): MarketLoad {
      return startLoad({
        feeds,
        publisher,
        codec: kafka.codec,
        random: random.branch(),
        recordsPerSecond: RECORDS_PER_SECOND,
        backlog: () => lagOf(look, 'book'),
      })
    }

    function keepAndKill(random: SeededRandom) {
      const start = () => platform.spawnRole('live-view')
      const keep = () =>
        platform.keep(keepRunning({ name: 'live-view', random: random.branch(), start, mayEnd: SAYS_WHY }))
      const kept = [keep(), keep()]
      const done = killInRounds(random.branch(), kept, {
        kills: KILLS,
        freezeEach: FREEZE_EACH,
        pauseMs: [500, 4_000],
        waiting: () => lagOf(look, 'live-view'),
      })
      return { kept, done }
    }

    async function read(random: SeededRandom, feeds: readonly Feed[]): Promise<PriceReader> {
      const api = await platform.spawnRole('api', { MARKETLOG_TIERS: writeRoomyTiers(platform.config.stateDir) })
      const address = await api.baseUrl()
      const itemIds = feeds[0]?.items.map(({ itemId }) => itemId) ?? []
      const key = await platform.newKey()
      const isThere = async (): Promise<boolean> => (await askPrices(address, key, itemIds[0] as number)).status === 200
      await eventually(isThere, 'the view to be there')
      return startPriceReader({ key, random: random.branch(), itemIds, address: () => address })
    }

    it('loses, doubles, invents and misplaces nothing, and refuses reads for a bounded time', async () => {
      const random = seededRandom(title)
      const book = await platform.spawnRole('book')
      const feeds = openSeededMarket(random.branch(), { items: ITEMS, askProviders: 9, bidProviders: 5 })
      const load = publish(random, feeds)
      const { kept, done } = keepAndKill(random)
      const reader = platform.keep(await read(random, feeds))
      for (let round = 1; round <= FAILOVERS; round++) {
        await load.wave()
        console.log(`      ${await harm(round)}`)
      }
      const report = await done
      const refreshes = await load.end()
      await groupsDrained(look, ['book', 'live-view'], DRAIN_LIMIT_MS)
      for (const one of kept) await one.stop()
      await reader.stop()

      const expected = foldRefreshes(refreshes.map(givenOf))
      console.log(describeKills(title, report))
      console.log(
        `      ${load.published()} records, ${expected.changes.length} changes; ` +
          `answers ${[...reader.statuses].map(([status, count]) => `${status}: ${count}`).join(', ')}`,
      )
      expectBalanced(await liveLedgers(await platform.openRedis(), platform.namespace, expected))
      expect(neverListed(reader, expected)).to.deep.equal([])
      expect(reader.statuses.get(0), 'requests without an answer').to.equal(undefined)
      expectAvailable(title, reader, { leastRows: ITEMS, awayS: UNAVAILABLE_S, refused: REFUSED_MOST })
      const killed = kept.reduce((sum, one) => sum + one.killed(), 0)
      expect([killed, report.kills], 'processes that were killed').to.deep.equal([KILLS, KILLS])
      expect(report.freezes, 'processes that stood still').to.be.above(0)
      expect(kept.reduce((sum, one) => sum + one.endedByThemselves(), 0)).to.be.at.most(
        KILLS + report.freezes + FAILOVERS,
      )
      expect(book.lines().filter(line => line.includes('"level":"fatal"'))).to.deep.equal([])
    })
  })

/** Rows that no refresh has listed. A replica that takes over may be behind, so a row may be older than one read before. */
const neverListed = (reader: PriceReader, { changes }: Expected): string[] =>
  wrongRows(reader.rows, changes).filter(fault => fault.endsWith('was never listed'))
