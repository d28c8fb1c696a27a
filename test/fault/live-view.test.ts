/**
 * The views under kill: Redis and ClickHouse hold what a reference fold of the refreshes says.
 *
 * The book that feeds them is neither killed nor frozen. Two processes of `live-view` and two that run `history` and `candles`
 * are killed with SIGKILL and frozen beyond their session at random moments while a seeded market is
 * published; then the log is drained and every row of every view is compared with the fold.
 */
import { expect } from 'chai'
import { openReader } from '#infra/clickhouse/clickhouse.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Publisher } from '#infra/kafka/publisher.ts'
import { databaseName } from '#infra/runtime/config.ts'
import type { LagReader } from '#services/cli/wait-for-views.ts'
import { type Feed, type LeastOfMarket, leastOf, openSeededMarket } from '#test/fixtures/seeded-market.ts'
import { eventually } from '#test/harness/eventually.ts'
import { expectFigure } from '#test/harness/figures.ts'
import { expectBalanced, type Ledger } from '#test/harness/ledger.ts'
import { givenOf } from '#test/harness/published-records.ts'
import { type Expected, foldRefreshes } from '#test/harness/reference-fold.ts'
import { randomOf, type SeededRandom, seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { type KillReport, type KillRun, killAndFreeze } from './kill-and-freeze.ts'
import { groupsDrained, lagOf } from './lag.ts'
import { type MarketLoad, startLoad } from './market-load.ts'
import { faultScale } from './scale.ts'
import { liveLedgers, tableLedgers } from './view-ledgers.ts'

const DRAIN_LIMIT_MS = 60_000
const WORK_LIMIT_MS = 4_000

describe('views under kill', function () {
  const scale = faultScale()
  this.timeout(scale.limitMs)
  const platform = useServers({ catalog: 'whole' })
  let kafka: KafkaConnection
  let publisher: Publisher
  let look: LagReader

  before(async () => {
    kafka = platform.connect()
    publisher = await platform.openPublisher(kafka, 'ingest')
    look = await platform.openLagReader()
  })

  const newRandom = (random: SeededRandom) => randomOf(random.integer(0, 2 ** 31))

  function publish(random: SeededRandom, feeds: readonly Feed[]): MarketLoad {
    return startLoad({
      feeds,
      publisher,
      codec: kafka.codec,
      random: newRandom(random),
      recordsPerSecond: scale.recordsPerSecond,
      backlog: () => lagOf(look, 'book'),
    })
  }

  /** Two processes of some roles, killed and frozen; the first role's lag says whether they have work. */
  function kill(random: SeededRandom, load: MarketLoad, roles: string, share: number): KillRun {
    const backlog = () => lagOf(look, roles.split(' ')[0] ?? '')
    return killAndFreeze(newRandom(random), {
      role: roles,
      processes: 2,
      pauseMs: [500, 4_000],
      intoWorkMs: [0, 100],
      backlog,
      kills: Math.ceil(scale.kills * share),
      freezes: Math.ceil(scale.freezes * share),
      start: () => platform.spawnRole(roles),
      // A wave reaches the views when the book has judged what came with it; some waves change nothing.
      work: async () => {
        await load.wave()
        await eventually(async () => (await backlog()) > 0, 'work', WORK_LIMIT_MS).catch(() => undefined)
      },
    })
  }

  async function drained(): Promise<void> {
    const endedAt = performance.now()
    await groupsDrained(look, ['book', 'live-view', 'history', 'candles'], DRAIN_LIMIT_MS)
    const value = (performance.now() - endedAt) / 1_000
    const limit = { atMost: DRAIN_LIMIT_MS / 1_000 }
    expectFigure({ test: 'views under kill', what: 'until the end of the log', value, unit: 's', limit })
  }

  async function ledgersOf(expected: Expected, least: LeastOfMarket): Promise<Record<string, Ledger>> {
    const { servers, namespace } = platform.config
    const redis = await platform.openRedis()
    const database = databaseName(namespace)
    const reader = openReader(servers.clickhouseReadOnly, { database, name: 'test' })
    try {
      return {
        ...(await liveLedgers(redis, namespace, expected, least)),
        ...(await tableLedgers(reader, expected, least)),
      }
    } finally {
      await reader.close()
    }
  }

  it('lose, double, invent and misplace nothing', async () => {
    const random = seededRandom('views under kill')
    await platform.spawnRole('book')
    const size = { items: scale.items, askProviders: 9, bidProviders: 5 }
    const feeds = openSeededMarket(newRandom(random), size)
    const load = publish(random, feeds)
    const runs = [kill(random, load, 'live-view', 1), kill(random, load, 'history candles', 0.5)].map(platform.keep)
    const reports = await Promise.all(runs.map(({ done }) => done))
    const refreshes = await load.end()
    await drained()
    for (const one of runs) await one.stop()

    const expected = foldRefreshes(refreshes.map(givenOf))
    const ledgers = await ledgersOf(expected, leastOf(feeds))
    for (const report of reports) console.log(`      ${storyOf(report)}`)
    console.log(
      `      ${load.published()} records in ${refreshes.length} refreshes, ${expected.changes.length} changes`,
    )
    expectBalanced(ledgers)
    expect(reports[0]).to.include({ kills: scale.kills, freezes: scale.freezes })
    for (const { role, underLoad, endedByThemselves, kills, freezes } of reports) {
      expect(underLoad, `kills and freezes of ${role} while records waited`).to.be.above(0)
      expect(endedByThemselves, `ends of ${role} without a kill or freeze`).to.be.at.most(kills + freezes)
    }
  })
})

const storyOf = ({ role, kills, freezes, underLoad, endedByThemselves, seconds }: KillReport): string =>
  `${role}: ${kills} kills and ${freezes} freezes in ${seconds} s, ${underLoad} of them under load; ` +
  `${endedByThemselves} ended by themselves`
