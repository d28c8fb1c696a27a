/**
 * The whole platform on three brokers that break, one after the other, while its own processes are killed and frozen.
 *
 * Two processes of each role (in the short run of some), each a user of its own with its own rights alone, reach the brokers by SASL_SSL
 * through proxies, and all other servers by TLS. Brokers are stopped, killed and frozen, leaders and coordinators moved, their network slowed, cut and half-opened; the
 * cluster is whole before the next fault. Then all is drained and everything that was written or sent is compared with a reference fold of
 * the observations.
 */
import { expect } from 'chai'
import type { TopicKey } from '#schemas/topics.ts'
import { ROLE_NAMES, type RoleName } from '#services/cli/roles.ts'
import { expectFigure } from '#test/harness/figures.ts'
import { findJavaReader } from '#test/harness/java-reader.ts'
import { randomOf, type SeededRandom, seededRandom } from '#test/harness/seeded-random.ts'
import type { TestPlatform } from '#test/harness/test-platform.ts'
import { useCluster } from '#test/harness/use-cluster.ts'
import { breakBrokers, type FaultReport } from './break-brokers.ts'
import { FAULT_KINDS, type FaultKind, planFaults } from './broker-fault-plan.ts'
import { FROZEN_MS, type KillRoundsReport, killInRounds } from './kill-in-rounds.ts'
import { endsByThemselves, expectPlatformBalanced } from './platform-ledgers.ts'
import {
  drainScenario,
  openPlatformScenario,
  type PlatformScenario,
  type ScenarioLoad,
  startScenario,
  stopClients,
} from './platform-scenario.ts'

const TEST = 'platform on brokers that break'
const IS_LONG = process.env.FAULT === 'long'
const SOME_KINDS: readonly FaultKind[] = [
  ...(['leader moves', 'kill -9', 'controlled shutdown', 'frozen leader', 'half-open network'] as const),
  ...(['cut network', 'group coordinators move', 'transaction coordinators move'] as const),
]
const KINDS = IS_LONG ? FAULT_KINDS : SOME_KINDS
/** A long run lasts until it has had as many faults and as many minutes. */
const FAULTS = Number(process.env.FAULTS ?? (IS_LONG ? 100 : KINDS.length))
const MINUTES = Number(process.env.MINUTES ?? (IS_LONG ? 30 : 0))
const ITEMS = Number(process.env.ITEMS ?? (IS_LONG ? 400 : 150))
const PAUSE_MS: readonly [number, number] = IS_LONG ? [1_000, 8_000] : [500, 3_000]
const LASTS_MS: readonly [number, number] = IS_LONG ? [1_000, 12_000] : [1_000, 5_000]
/** The short run shares the machine with other files: those whose second process takes over what the first has begun. */
const TWICE: readonly RoleName[] = IS_LONG ? ROLE_NAMES : ['market-summary', 'alert-triggers', 'book', 'feed', 'ingest']
/** Beside those of the book. */
const JAVA_TOPICS: readonly TopicKey[] = IS_LONG
  ? ['quotes', 'bids', 'sales', 'refreshes', 'unresolved', 'deadLetters', 'alertRules', 'alertsTriggered']
  : []
/** Between two kills or freezes of processes. */
const KILL_PAUSE_MS: readonly [number, number] = [2_000, 8_000]
const FREEZE_CHANCE = 0.3
/** Of a process that starts while a broker is away, and of what is left when all is whole again. */
const LIMIT_MS = 120_000
const RECOVERED_S = 20

describe(TEST, function () {
  this.timeout(900_000 + MINUTES * 60_000 + FAULTS * 60_000)
  const platform = useCluster({ setUp: true, ownRights: true })
  let scenario: PlatformScenario | undefined
  let load: ScenarioLoad | undefined

  after(async () => {
    if (load) await stopClients(load)
    await scenario?.close()
  })

  /** Breaks brokers, and processes beside them, until the limits are reached. */
  async function breakAll(random: SeededRandom, { roles, isUnderLoad }: PlatformScenario) {
    const plan = planFaults(randomOf(random.integer(0, 2 ** 31)), {
      ...{ kinds: KINDS, brokers: platform.cluster.brokers.length, pauseMs: PAUSE_MS, lastsMs: LASTS_MS },
    })
    const ending = new AbortController()
    const failing = new AbortController()
    const killing = killInRounds(randomOf(random.integer(0, 2 ** 31)), roles.all, {
      ...{ kills: Number.POSITIVE_INFINITY, pauseMs: KILL_PAUSE_MS, freezeChance: FREEZE_CHANCE },
      ...{ readyLimitMs: LIMIT_MS, isUnderLoad, signal: ending.signal },
    })
    killing.catch(error => failing.abort(error))
    const limits = { faults: FAULTS, ms: MINUTES * 60_000, signal: failing.signal }
    const report = await breakBrokers(platform, plan, limits).finally(() => ending.abort())
    return { report, killed: await killing }
  }

  it('loses, doubles, invents and misplaces nothing anywhere', async () => {
    const random = seededRandom(TEST)
    scenario = await openPlatformScenario(platform, random, { items: ITEMS, twice: TWICE, limitMs: LIMIT_MS })
    load = await startScenario(scenario)
    await expectTlsAlone(platform)
    const { report, killed } = await breakAll(random, scenario)
    printFaults(report, killed)
    const drained = await drainScenario(scenario, load)

    const java = await findJavaReader()
    const frozenS = FROZEN_MS[1] / 1_000
    await expectPlatformBalanced({ test: TEST, scenario, load, ...drained, java, javaTopics: JAVA_TOPICS, frozenS })
    for (const kind of KINDS) {
      const value = report.recoveredS.get(kind) ?? Number.NaN
      expectFigure({ test: TEST, what: `whole after ${kind}`, value, unit: 's', limit: { atMost: RECOVERED_S } })
    }
    expect(report.faults, 'faults').to.be.at.least(FAULTS)
    expect(killed.underLoad, 'kills and freezes under load').to.be.above(0)
    expect(endsByThemselves(scenario), 'ends without a kill').to.be.at.most(report.faults)
  })
})

/** Every address is one of TLS, and Postgres, which says so of its sessions, has no other. */
async function expectTlsAlone({ config, database }: TestPlatform): Promise<void> {
  const { kafkaAccess: _, kafka, ...urls } = config.servers
  expect(config.kafka.tls, `TLS to ${kafka}`).not.to.equal(undefined)
  for (const [name, url] of Object.entries(urls))
    expect(url, name).to.match(/^(https|rediss):|^postgres:.*[?&]sslrootcert=/)
  const sessions = await database.rows<{ ssl: boolean; sessions: number }>(
    `SELECT ssl, count(*)::int AS sessions FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
      WHERE backend_type = 'client backend' GROUP BY ssl`,
  )
  expect(sessions.map(({ ssl }) => ssl)).to.deep.equal([true])
  expect(sessions[0]?.sessions).to.be.above(3)
}

function printFaults(report: FaultReport, killed: KillRoundsReport): void {
  const kinds = [...report.counts].map(([kind, count]) => `${count} ${kind}`).join(', ')
  const names = [...killed.kills].flatMap(([name, count]) => (count > 0 ? [`${name} ${count}`] : [])).join(', ')
  const all = [...killed.kills.values()].reduce((sum, count) => sum + count, 0)
  for (const line of [
    `${report.faults} faults of brokers in ${report.seconds} s, ${report.moved} leaders moved by request: ${kinds}`,
    `${all} faults of processes, ${killed.freezes} of them freezes, ${killed.underLoad} under load: ${names}`,
  ]) {
    console.log(`      ${line}`)
  }
}
