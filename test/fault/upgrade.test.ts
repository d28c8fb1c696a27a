/**
 * Two versions of the platform side by side on one data directory: each role is replaced by the newer version under load, and back.
 *
 * The older one is the first commit of which this holds, or UPGRADE_FROM; what was before it stops, is set up and starts again. Then
 * all is drained, and everything that was written or delivered is compared with a reference fold of the observations.
 */
import { execFileSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { expect } from 'chai'
import { setUp as setUpByThis } from '#services/cli/set-up.ts'
import { noteAbsence } from '#test/harness/absences.ts'
import { checkOut, commitOf, commitThatAdded } from '#test/harness/checkout.ts'
import { eventually } from '#test/harness/eventually.ts'
import { seededRandom } from '#test/harness/seeded-random.ts'
import { spawnRole } from '#test/harness/spawn-role.ts'
import type { TestPlatform } from '#test/harness/test-platform.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { type Kept, READY_LIMIT_MS } from './keep-running.ts'
import { endsByThemselves, expectPlatformBalanced } from './platform-ledgers.ts'
import {
  drainScenario,
  openPlatformScenario,
  type PlatformScenario,
  type ScenarioLoad,
  type ScenarioOptions,
  startScenario,
  stopClients,
} from './platform-scenario.ts'

const IS_LONG = process.env.FAULT === 'long'
const ITEMS = Number(process.env.ITEMS ?? (IS_LONG ? 400 : 80))
/** Processes that are replaced together; the long run replaces one by one. */
const AT_ONCE = IS_LONG ? 1 : 5
const COMPLETE_LIMIT_MS = 20_000
const TIMEOUT_MS = IS_LONG ? 1_800_000 : 600_000

/** What an upgrade is made with while the platform is under load. */
interface Upgrade {
  scenario: PlatformScenario
  /** Started next by this version, or by the older one. */
  choose(processes: readonly Kept[], version: 'this' | 'base'): void
  /** Runs the set-up step of a version, as its start does. */
  setUp(version: 'this' | 'base'): Promise<void>
  /** Resolves when refreshes are on their way through the log. */
  underLoad(): Promise<void>
}

const { UPGRADE_FROM } = process.env
/** The last of what versions need to run side by side came with it. */
const SIDE_BY_SIDE_SINCE = 'test/harness/checkout.ts'
/** The first came with it: what was before must stop. */
const STOPS_BEFORE = 'streams/runner/unknown-events.ts'

describe('an upgrade', function () {
  this.timeout(TIMEOUT_MS)
  const platform = useServers({ setUp: false })

  it('goes on side by side, and back again: nothing is lost, doubled, invented or misplaced', async () => {
    const base = commitOf(UPGRADE_FROM || commitThatAdded(SIDE_BY_SIDE_SINCE) || '')
    await upgraded(platform, base, async ({ scenario, choose, setUp, underLoad }) => {
      const { roles, random } = scenario
      for (const version of ['this', 'base'] as const) {
        // An older image that starts must leave in place what a newer one has set up.
        await setUp(version)
        for (const some of portions(random.shuffle(roles.all))) {
          choose(some, version)
          await underLoad()
          await Promise.all(some.map(one => one.restart()))
        }
      }
    })
  })
})

describe('an upgrade from a version that cannot run beside this one', function () {
  this.timeout(TIMEOUT_MS)
  const platform = useServers({ setUp: false })

  it('stops, is set up and starts: nothing is lost, doubled, invented or misplaced', async () => {
    const first = commitThatAdded(STOPS_BEFORE)
    await upgraded(platform, first && commitOf(`${first}^`), async ({ scenario, choose, setUp, underLoad }) => {
      const { all } = scenario.roles
      await underLoad()
      const isSetUp = Promise.withResolvers<void>()
      const stopped = all.map(one => one.role()?.ended)
      choose(all, 'this')
      const restarted = Promise.all(all.map(one => one.restart(isSetUp.promise)))
      // Its failure rejects below; before that it has no other handler.
      restarted.catch(() => undefined)
      await Promise.all(stopped)
      await setUp('this')
      isSetUp.resolve()
      await restarted
    })
  })
})

/** Starts a platform of an older version under load, upgrades it, and expects that all ledgers balance. */
async function upgraded(
  platform: TestPlatform,
  base: string | undefined,
  upgrade: (parts: Upgrade) => Promise<void>,
): Promise<void> {
  if (base === undefined) {
    const missing = UPGRADE_FROM ? `git does not know ${UPGRADE_FROM}` : 'the history of this clone does not reach it'
    return noteAbsence('the commit to upgrade from', `no older version runs (${missing})`)
  }
  const checkout = checkOut(base)
  const chosen = new Map<string, 'this' | 'base'>()
  const known = rolesOf(checkout.main)
  // What the older version does not know is run by this one from the beginning.
  const mainOf = (name: string) =>
    chosen.get(name) === 'this' || !known.has(name.split(' ')[0] ?? name) ? undefined : checkout.main
  let scenario: PlatformScenario | undefined
  let load: ScenarioLoad | undefined
  try {
    const setUp: Upgrade['setUp'] = version =>
      version === 'this' ? setUpByThis(platform.config, platform.log) : setUpBy(checkout.main, platform)
    await setUp('base')
    const own = await ownOf(checkout.main)
    const options = { items: ITEMS, twice: ['feed'], limitMs: READY_LIMIT_MS, mainOf, ...own } as const
    const opened = await openPlatformScenario(platform, seededRandom('upgrade'), options)
    scenario = opened
    load = await startScenario(opened)
    const choose: Upgrade['choose'] = (processes, version) => {
      for (const { name } of processes) chosen.set(name, version)
    }
    const underLoad = () => eventually(opened.isUnderLoad, 'refreshes under way').then(() => undefined)
    await upgrade({ scenario, choose, setUp, underLoad })
    const drained = await drainScenario(scenario, load)
    await expectPlatformBalanced({ test: 'an upgrade', scenario, load, ...drained, java: undefined })
    expect(endsByThemselves(scenario), 'processes that ended by themselves').to.equal(0)
  } finally {
    if (load) await stopClients(load)
    await scenario?.close()
    checkout.remove()
  }
}

/** The roles that a version knows. */
function rolesOf(main: string): ReadonlySet<string> {
  const said = execFileSync(process.execPath, [main, 'complete', '--', 'marketlog', 'run', ''], {
    encoding: 'utf8',
    timeout: COMPLETE_LIMIT_MS,
  })
  return new Set(said.split('\n').filter(Boolean))
}

/**
 * What a version makes keys, alerts and destinations with, and how it writes tiers: until the newer one is set up, tables and files
 * are as the older one knows them.
 */
async function ownOf(main: string): Promise<Required<Pick<ScenarioOptions, 'commands' | 'writeTiers'>>> {
  const load = (path: string) => import(join(dirname(main), '../..', path))
  const [{ createAccountWithKey }, { createAlerts }, { createWebhook }, { writeRoomyTiers }] = await Promise.all([
    load('services/accounts/keys/commands.ts'),
    load('services/alerts/rules/commands.ts'),
    load('services/alerts/webhooks/commands.ts'),
    load('test/harness/roomy-tiers.ts'),
  ])
  return { commands: { createAccountWithKey, createAlerts, createWebhook }, writeTiers: writeRoomyTiers }
}

/** Starts a role that keeps nothing, and so the set-up step of a version. */
async function setUpBy(main: string, { environment }: TestPlatform): Promise<void> {
  const role = await spawnRole('inventory-stand-in', { ...environment, LOG_LEVEL: 'info' }, { main, setsUp: true })
  try {
    await role.baseUrl()
  } finally {
    await role.stop()
  }
}

const portions = <T>(all: readonly T[]): T[][] =>
  Array.from({ length: Math.ceil(all.length / AT_ONCE) }, (_, at) => all.slice(at * AT_ONCE, (at + 1) * AT_ONCE))
