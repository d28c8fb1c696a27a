/**
 * The whole platform on three brokers that break, one after the other, while its own processes are killed and frozen.
 *
 * Each process, a user of its own with its own rights alone, reaches the brokers by SASL_SSL through proxies, and all other servers by TLS.
 * Then all is drained and everything that was written or sent is compared with a reference fold of the observations.
 */
import { expect } from 'chai'
import type { TopicKey } from '#schemas/topics.ts'
import { MINUTE_MS } from '#schemas/values/instant.ts'
import { ROLE_NAMES, type RoleName } from '#services/cli/roles.ts'
import { findJavaReader } from '#test/harness/java-reader.ts'
import { type SeededRandom, seededRandom } from '#test/harness/seeded-random.ts'
import { useCluster } from '#test/harness/use-cluster.ts'
import { breakBrokers, FAULT_KINDS, type FaultKind, planFaults } from './break-brokers.ts'
import { describeKills, killInRounds } from './keep-running.ts'
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
const KILL_PAUSE_MS: readonly [number, number] = [300, 2_000]
/** One fault of a process in so many is a freeze. */
const FREEZE_EACH = 4
/** Of a process that starts while a broker is away, and of what is left when all is whole again. */
const LIMIT_MS = 120_000

describe(TEST, function () {
  this.timeout(900_000 + MINUTES * MINUTE_MS + FAULTS * MINUTE_MS)
  const platform = useCluster({ setUp: true, ownRights: true })
  let scenario: PlatformScenario | undefined
  let load: ScenarioLoad | undefined

  after(async () => {
    if (load) await stopClients(load)
    await scenario?.close()
  })

  /** Breaks brokers until the limits are reached, and each process beside them once at least. */
  async function breakAll(random: SeededRandom, { roles, waiting }: PlatformScenario) {
    const plan = planFaults(random.branch(), {
      kinds: KINDS,
      brokers: platform.cluster.brokers.length,
      pauseMs: PAUSE_MS,
      lastsMs: LASTS_MS,
    })
    const [ending, failing] = [new AbortController(), new AbortController()]
    const killing = killInRounds(random.branch(), roles.all, {
      kills: roles.all.length,
      pauseMs: KILL_PAUSE_MS,
      freezeEach: FREEZE_EACH,
      waiting,
      readyLimitMs: LIMIT_MS,
      until: ending.signal,
      signal: failing.signal,
    })
    killing.catch(error => failing.abort(error))
    const limits = { faults: FAULTS, ms: MINUTES * MINUTE_MS, signal: failing.signal }
    const breaking = breakBrokers(platform, plan, limits)
    const report = await breaking.finally(() => ending.abort()).catch(error => failing.abort(error))
    const killed = await killing
    return { report: report ?? (await breaking), killed }
  }

  it('loses, doubles, invents and misplaces nothing anywhere', async () => {
    const random = seededRandom(TEST)
    scenario = await openPlatformScenario(platform, random, { items: ITEMS, twice: TWICE, limitMs: LIMIT_MS })
    load = await startScenario(scenario)
    const { report, killed } = await breakAll(random, scenario)
    const kinds = [...report.counts].map(([kind, count]) => `${count} ${kind}`).join(', ')
    console.log(`      ${report.disturbances.length} faults of brokers: ${kinds}`)
    console.log(describeKills('processes', killed))
    const drained = await drainScenario(scenario, load)

    const java = await findJavaReader()
    const disturbances = [...report.disturbances, ...killed.disturbances]
    const about = { test: TEST, javaTopics: JAVA_TOPICS }
    await expectPlatformBalanced({ ...about, scenario, load, ...drained, java, disturbances })
    expect([...report.counts.keys()], 'kinds of faults').to.have.members([...KINDS])
    expect(scenario.roles.all.filter(one => one.killed() === 0).map(({ name }) => name)).to.deep.equal([])
    expect(endsByThemselves(scenario), 'ends without a kill').to.be.at.most(report.disturbances.length)
  })
})
