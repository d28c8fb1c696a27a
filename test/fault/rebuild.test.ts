/**
 * Rebuilds that are killed at their work, of views whose roles are killed too, while the market goes on: at the end every view equals the
 * reference fold of what was published.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'chai'
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Redis } from '#infra/redis/redis.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { HOUR_MS } from '#schemas/values/instant.ts'
import { findingsOf, rebuild } from '#services/cli/log-tools/views.ts'
import { VIEWS } from '#streams/views.ts'
import { openSmallMarket, type SmallMarket } from '#test/fixtures/small-market.ts'
import { collectOutput, contextOf } from '#test/harness/collected-output.ts'
import { eventually } from '#test/harness/eventually.ts'
import { expectBalanced, type Ledger } from '#test/harness/ledger.ts'
import { ratesRecord } from '#test/harness/published-records.ts'
import { foldRefreshes } from '#test/harness/reference-fold.ts'
import { MAIN } from '#test/harness/run-command.ts'
import { seededRandom } from '#test/harness/seeded-random.ts'
import type { SpawnedRole } from '#test/harness/spawn-role.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { marketLedgers } from './side-ledgers.ts'

const ROLES = ['sales', 'history', 'candles', 'live-view', 'fx', 'provider-health', 'book']
/** That hit a rebuild at its work; every view has its share. */
const KILLS = process.env.FAULT === 'long' ? 60 : 12
/** A rebuild may be over before it is killed. */
const REBUILDS_MOST = 4 * KILLS
const ROLE_KILL_EVERY = 4
/** The machine has to carry the roles, the rebuilds and the market. */
const ROUND_EVERY_MS = 150
const REBUILD_LIMIT_MS = 60_000
/** How far into its work a rebuild is killed, which it has done in about half a second. */
const INTO_WORK_MS = [0, 300] as const

/** Of a view in Redis each partition has one. */
const LAST_LEASES: Readonly<Record<string, string>> = {
  'live-view': `{live:${ITEM_PARTITIONS - 1}}`,
  'provider-health': '{health}',
}

/** Their views that can be rebuilt and verified. */
const STORED_VIEWS = VIEWS.filter(({ name, verify }) => verify && ROLES.includes(name)).map(({ name }) => name)

type StoredView = (typeof STORED_VIEWS)[number]

describe('killed rebuilds', function () {
  this.timeout(600_000)
  const platform = useServers({ catalog: 'whole' })
  let kafka: KafkaConnection
  let market: SmallMarket
  let redis: Redis
  let tables: ClickhouseReader
  let roles: SpawnedRole

  before(async () => {
    redis = await platform.openRedis()
    tables = platform.openTables()
    kafka = platform.connect('ingest')
    market = await openSmallMarket(kafka)
    const rates = await platform.openPublisher(kafka, 'ingest')
    await rates.send(
      [0.91, 0.92].map((EUR, at) => ratesRecord(kafka.codec, Date.now() - HOUR_MS + at, { EUR: `${EUR}` })),
    )
    roles = await startAll()
  })
  after(async () => {
    await market?.close()
  })

  async function startAll(): Promise<SpawnedRole> {
    const started = await platform.spawnRole(ROLES.join(' '))
    await started.baseUrl()
    return started
  }

  /** The lease that a build takes last before it begins to work. */
  const markOf = (view: StoredView): Promise<string | null> =>
    redis.get(`${platform.namespace}build:${LAST_LEASES[view] ?? view}`)

  /** Starts a rebuild and kills it at its work; resolves with whether it was still there. One that ends must end well. */
  async function killRebuild(view: StoredView, intoWorkMs: number): Promise<boolean> {
    const env = { PATH: process.env.PATH ?? '', ...platform.environment }
    const before = await markOf(view)
    const command = spawn(process.execPath, [MAIN, 'rebuild', view], { env, stdio: ['ignore', 'ignore', 'pipe'] })
    let said = ''
    command.stderr.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
    const closed = once(command, 'close')
    const isAtWork = async (): Promise<boolean> => {
      const mark = await markOf(view)
      return (mark !== null && mark !== before) || command.exitCode !== null
    }
    await eventually(isAtWork, `the rebuild of ${view} to begin`)
    await Promise.race([pause(intoWorkMs), closed])
    command.kill('SIGKILL')
    const [code, signal] = (await closed) as [number | null, NodeJS.Signals | null]
    if (signal !== 'SIGKILL') expect(code, `a rebuild of ${view} that was not killed: ${said}`).to.equal(0)
    return signal === 'SIGKILL'
  }

  async function settled(): Promise<void> {
    await platform.drained(ROLES)
  }

  function ledgers(isKilled: boolean): Promise<Record<string, Ledger>> {
    const { refreshes, sales } = market
    return marketLedgers(kafka, { redis, tables }, { refreshes, sales, expected: foldRefreshes(refreshes) }, isKilled)
  }

  it(`hit ${KILLS} rebuilds at their work, and those that were let live ended well`, async () => {
    const random = seededRandom('killed rebuilds')
    const ending = new AbortController()
    const load = (async () => {
      while (!ending.signal.aborted) {
        await market.publishRound()
        await pause(ROUND_EVERY_MS)
      }
    })()
    load.catch(() => undefined)
    let [killed, rebuilds] = [0, 0]
    for (; killed < KILLS && rebuilds < REBUILDS_MOST; rebuilds++) {
      // A view comes again until a kill has hit it.
      const view = STORED_VIEWS[killed % STORED_VIEWS.length] as StoredView
      if (!(await killRebuild(view, random.integer(...INTO_WORK_MS)))) continue
      killed += 1
      if (killed % ROLE_KILL_EVERY !== 0) continue
      roles.kill('SIGKILL')
      await roles.ended
      roles = await startAll()
    }
    ending.abort()
    await load
    console.log(`      ${killed} rebuilds killed at their work, ${rebuilds - killed} done before that`)
    expect(killed, `killed of ${rebuilds} rebuilds`).to.equal(KILLS)
  })

  it('leave every view what the reference makes of the log, and what the product compares', async () => {
    await settled()
    expectBalanced(await ledgers(true))
    for (const view of STORED_VIEWS) {
      const { compared, differences, examples } = await findingsOf(platform.config, platform.log, view, () => undefined)
      console.log(`      ${view}: ${compared} rows compared, ${differences} differ`)
      expect(examples, view).to.deep.equal([])
      expect(compared, `rows of ${view} compared`).to.be.above(0)
    }
  })

  it('leave a rebuild that is let live the same views, and nothing of the others behind', async () => {
    for (const view of STORED_VIEWS) {
      const options = { acceptLoss: false, signal: AbortSignal.timeout(REBUILD_LIMIT_MS) }
      await rebuild(contextOf(platform, collectOutput()), view, options)
    }
    await settled()
    expectBalanced(await ledgers(false))
    const left = await tables.rows(
      `SELECT name FROM system.tables WHERE database = '${tables.database}' AND match(name, '_[0-9a-f]{8}_[0-9a-f]{8}$')`,
    )
    const named = VIEWS.flatMap(({ tables }) => tables)
    expect(left, 'one version of each table').to.have.length(named.length)
  })
})
