/**
 * What of the platform may reach Postgres through a pooler that gives each transaction another session, and what goes past it.
 *
 * Limits of statements were parameters of the session, which PgBouncer refuses; jobs listen, lock and prepare by session.
 */
import { expect } from 'chai'
import { addJob, type RunningJobs, runJobs } from '#infra/postgres/jobs.ts'
import { databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { eventually } from '#test/harness/eventually.ts'
import { type OwnPooler, openOwnPooler } from '#test/harness/own-pooler.ts'
import { openOwnServer } from '#test/harness/own-server.ts'
import { openScenario, type Scenario } from '#test/harness/scenario.ts'
import { useServers } from '#test/harness/use-servers.ts'

const AT_ONCE = 24
type Limit = { setting: string }
const LIMITS = `SELECT current_setting(name) AS setting FROM pg_settings
  WHERE name IN ('idle_in_transaction_session_timeout', 'lock_timeout', 'statement_timeout') ORDER BY name`
const numbers = Array.from({ length: AT_ONCE }, (_, index) => index)

describe('Postgres behind PgBouncer in transaction mode', () => {
  let pooler: OwnPooler | undefined
  const platform = useServers({
    own: {
      postgres: async () => {
        const server = await openOwnServer('postgres')
        const direct = server.addresses.postgres as string
        const close = async () => {
          await pooler?.close()
          await server.close()
        }
        try {
          pooler = await openOwnPooler(direct)
        } catch (error) {
          await close()
          throw error
        }
        return { ...server, addresses: { postgres: pooler.url, postgresDirect: direct }, close }
      },
    },
  })
  let scenario: Scenario
  before(async () => {
    // Set-up, with its migrations and locks, has gone past the pooler.
    scenario = await openScenario(platform, { roles: ['delivery', 'accounts', 'api'] })
  })
  after(() => scenario.close())

  const pooled = (statementLimitMs = 5_000) =>
    openDatabase(databaseUrl(platform.config.servers.postgres, databaseName(platform.namespace)), {
      name: 'pooled',
      log: platform.log,
      connections: AT_ONCE,
      statementLimitMs,
    })

  it('serves accounts and portfolios to more connections than there are sessions', async () => {
    const key = await platform.newKey()
    const names = numbers.map(number => `portfolio ${number}`)
    const created = await Promise.all(
      names.map(name => scenario.ask('/v1/portfolio', { method: 'POST', as: key, body: { name } })),
    )
    expect(created.map(({ status }) => status)).to.deep.equal(names.map(() => 201))
    const listed = await scenario.ask('/v1/portfolio', { as: key })
    expect(listed.body.data).to.have.length(AT_ONCE)
    await scenario.roles.ready()
  })

  it('gives statements, locks and idle transactions the limits of their pool, whichever session runs them', async () => {
    const pools = [pooled(20_000), pooled()]
    const limits = await Promise.all(
      numbers.flatMap(() =>
        pools.flatMap(pool => [pool.rows<Limit>(LIMITS), pool.transaction(query => query<Limit>(LIMITS))]),
      ),
    )
    const shown = limits.map(rows => rows.map(({ setting }) => setting).join(' '))
    const ofPools = ['10s 3s 20s', '10s 3s 5s'].flatMap(one => [one, one])
    expect(shown).to.deep.equal(numbers.flatMap(() => ofPools))
    for (const pool of pools) await pool.close()
  })

  it('adds jobs in pooled transactions, and runs them on sessions of their own at once', async () => {
    const direct = databaseUrl(platform.config.servers.postgresDirect as string, databaseName(platform.namespace))
    const done: unknown[] = []
    let jobs: RunningJobs | undefined
    const database = pooled()
    try {
      const lanes = [{ tasks: { note: async (payload: unknown) => void done.push(payload) }, concurrency: 2 }]
      jobs = await runJobs({ url: direct, name: 'test', log: platform.log, lanes })
      await database.transaction(query => addJob(query, 'note', { number: 1 }))
      const rolledBack = database.transaction(async query => {
        await addJob(query, 'note', { number: 2 })
        throw new Error('not to be')
      })
      await rolledBack.catch(() => undefined)
      await database.transaction(query => addJob(query, 'note', { number: 3 }))
      await eventually(() => done.length === 2, 'the jobs to run')
      expect(done).to.have.deep.members([{ number: 1 }, { number: 3 }])
    } finally {
      await jobs?.stop()
      await database.close()
    }
  })

  it('is asked for nothing that a session would have to keep', () => {
    expect(pooler?.log()).not.to.match(/unsupported startup parameter|prepared statement/)
  })
})
