/**
 * Every role under kill, one after the other, on a market that is polled, judged, viewed, summarised, watched and sold.
 *
 * Every role runs as a process of its own, is killed with SIGKILL again and again, and is started again as a supervisor
 * would. Then all is drained, and everything that was written or delivered is compared with a reference fold of the observations.
 */
import { expect } from 'chai'
import { ROLE_NAMES } from '#services/cli/roles.ts'
import { findJavaReader } from '#test/harness/java-reader.ts'
import { randomOf, seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { READY_LIMIT_MS } from './keep-running.ts'
import { killInRounds } from './kill-in-rounds.ts'
import { endsByThemselves, expectPlatformBalanced } from './platform-ledgers.ts'
import {
  drainScenario,
  openPlatformScenario,
  type PlatformScenario,
  type ScenarioLoad,
  startScenario,
  stopClients,
} from './platform-scenario.ts'

const IS_LONG = process.env.FAULT === 'long'
/** The short run kills each process once. */
const KILLS = Number(process.env.KILLS ?? (IS_LONG ? 200 : 0))
const ITEMS = Number(process.env.ITEMS ?? (IS_LONG ? 600 : 150))
const PAUSE_MS: readonly [number, number] = IS_LONG ? [300, 3_000] : [100, 900]

describe('every role under kill', function () {
  this.timeout(300_000 + (KILLS || ROLE_NAMES.length) * 15_000)
  const platform = useServers({ catalog: 'whole' })
  let scenario: PlatformScenario | undefined
  let load: ScenarioLoad | undefined

  after(async () => {
    if (load) await stopClients(load)
    await scenario?.close()
  })

  it('loses, doubles, invents and misplaces nothing anywhere', async () => {
    const random = seededRandom('every role under kill')
    scenario = await openPlatformScenario(platform, random, { items: ITEMS, twice: ['feed'], limitMs: READY_LIMIT_MS })
    const { roles } = scenario
    load = await startScenario(scenario)
    const kills = KILLS || roles.all.length
    const report = await killInRounds(randomOf(random.integer(0, 2 ** 31)), roles.all, {
      kills,
      pauseMs: PAUSE_MS,
      isUnderLoad: scenario.isUnderLoad,
    })
    const drained = await drainScenario(scenario, load)

    const counts = [...report.kills].map(([name, kills]) => `${name} ${kills}`).join(', ')
    console.log(
      `      ${kills} kills in ${report.seconds} s, ${report.underLoad} under load, ${report.early} of processes not yet ready`,
    )
    console.log(`      ${counts}`)
    const java = IS_LONG ? await findJavaReader() : undefined
    await expectPlatformBalanced({ test: 'every role under kill', scenario, load, ...drained, java })
    expect(endsByThemselves(scenario), 'ends without a kill').to.be.at.most(kills)
    if (kills >= roles.all.length) expect([...report.kills].filter(([, count]) => count === 0)).to.deep.equal([])
    expect(report.underLoad, 'kills under load').to.be.above(kills / 3)
  })
})
