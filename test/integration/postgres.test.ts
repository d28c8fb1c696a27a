/** Limits of statements were parameters of the session, which PgBouncer refuses; jobs listen, lock and prepare by session. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { addJob, type JobLane, type JobTask, type RunningJobs, runJobs, setUpJobs } from '#infra/postgres/jobs.ts'
import { migrate } from '#infra/postgres/migrate.ts'
import { type Database, databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { HOUR_MS } from '#schemas/values/instant.ts'
import { eventually } from '#test/harness/eventually.ts'
import { type OwnPooler, openOwnPooler } from '#test/harness/own-pooler.ts'
import { openOwnServer } from '#test/harness/own-server.ts'
import { openScenario, type Scenario } from '#test/harness/scenario.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { layWire, type Wire } from '#test/harness/wire-proxy.ts'

const WORKER = fileURLToPath(new URL('../fixtures/hanging-worker.ts', import.meta.url))

describe('jobs', () => {
  const platform = useServers({ setUp: false })
  let url: string
  let database: Database
  let wire: Wire
  const running: RunningJobs[] = []
  before('a database with the schema of jobs', async () => {
    const { config, log } = platform
    url = databaseUrl(config.servers.postgres, databaseName(config.namespace))
    await migrate(url)
    await Promise.all([setUpJobs(url, log), setUpJobs(url, log)])
    await setUpJobs(url, log)
    wire = await layWire(url)
    database = openDatabase(url, { name: 'test', log })
  })
  afterEach('end of the lanes', async () => {
    for (const one of running.splice(0)) await one.stop()
  })
  after('end of the database', async () => {
    await database.close()
    await wire.close()
  })

  /** Runs lanes until the end of the test. */
  async function start(lanes: JobLane[], to = url) {
    const jobs = await runJobs({ url: to, name: 'test', log: platform.log, lanes })
    running.push(jobs)
    return jobs
  }

  /** A task that notes what it was given. */
  function noting(): { seen: unknown[]; task: JobTask } {
    const seen: unknown[] = []
    return { seen, task: async payload => void seen.push(payload) }
  }

  const waiting = async (): Promise<number> =>
    (await database.rows<{ n: number }>('SELECT count(*)::int AS n FROM graphile_worker.jobs'))[0]?.n ?? -1

  it('exist when their transaction commits, and not otherwise', async () => {
    const failing = database.transaction(async query => {
      await addJob(query, 'note', { n: 1 })
      throw new Error('rolled back')
    })
    expect(await failing.catch(error => error.message)).to.equal('rolled back')
    await database.transaction(query => addJob(query, 'note', { n: 2 }))
    const { seen, task } = noting()
    await start([{ tasks: { note: task }, concurrency: 2 }])
    await eventually(async () => (await waiting()) === 0, 'no job to wait')
    expect(seen).to.deep.equal([{ n: 2 }])
  })

  it('of one key are one, and wait for their time', async () => {
    await addJob(database.rows, 'note', { n: 1 }, { key: 'same', runAt: new Date(Date.now() + HOUR_MS).toISOString() })
    const { seen, task } = noting()
    await start([{ tasks: { note: task }, concurrency: 2 }])
    await addJob(database.rows, 'note', { n: 2 })
    await eventually(() => seen.length > 0, 'the job without a time')
    expect(seen).to.deep.equal([{ n: 2 }])
    await addJob(database.rows, 'note', { n: 3 }, { key: 'same' })
    await eventually(async () => (await waiting()) === 0, 'no job to wait')
    expect(seen).to.deep.equal([{ n: 2 }, { n: 3 }])
  })

  it('of one lane do not wait for those of another', async () => {
    const { seen, task } = noting()
    const release = Promise.withResolvers<void>()
    await start([
      { tasks: { hang: () => release.promise }, concurrency: 1 },
      { tasks: { note: task }, concurrency: 1 },
    ])
    await addJob(database.rows, 'hang', {})
    await addJob(database.rows, 'hang', {})
    await addJob(database.rows, 'note', {})
    await eventually(() => seen.length === 1, 'the job of the other lane')
    release.resolve()
    await eventually(async () => (await waiting()) === 0, 'no job to wait')
  })

  it('are tried again when they fail', async () => {
    let runs = 0
    const fail = async () => {
      runs += 1
      if (runs < 2) throw new Error('the first run fails')
    }
    await start([{ tasks: { fail }, concurrency: 1 }])
    await addJob(database.rows, 'fail', {})
    await eventually(async () => runs === 2 && (await waiting()) === 0, 'the second run')
  })

  it('of a process that was killed are free as soon as another polls, and those of a live one are not', async () => {
    const { seen, task } = noting()
    const release = Promise.withResolvers<void>()
    const alive = await start([{ tasks: { hold: () => release.promise }, concurrency: 1 }])
    await addJob(database.rows, 'hold', {})
    await addJob(database.rows, 'hang', { n: 1 })
    await addJob(database.rows, 'hang', { n: 2 }, { key: 'of its own' })
    const child = spawn(process.execPath, [WORKER, url], { stdio: ['ignore', 'pipe', 'inherit'] })
    let taken = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      taken += text
    })
    await eventually(() => taken.split('taken').length === 3, 'both jobs to be taken')
    child.kill('SIGKILL')
    await once(child, 'exit')
    await start([{ tasks: { hang: task }, concurrency: 1 }])
    await eventually(() => seen.length === 2, 'the jobs of the dead process')
    const held = await database.rows<{ locked: boolean }>(
      `SELECT locked_at IS NOT NULL AS locked FROM graphile_worker.jobs WHERE task_identifier = 'hold'`,
    )
    expect(held).to.deep.equal([{ locked: true }])
    expect(alive.unavailable()).to.equal(undefined)
    release.resolve()
    await eventually(async () => (await waiting()) === 0, 'no job to wait')
  })

  it('go on after Postgres was lost, one whose taking was not answered too', async () => {
    const { seen, task } = noting()
    const jobs = await start([{ tasks: { note: task }, concurrency: 2 }], wire.url)
    await addJob(database.rows, 'note', { n: 1 })
    await eventually(async () => seen.length === 1 && (await waiting()) === 0, 'the job before the cut')
    await database.transaction(async query => {
      await query('LOCK TABLE graphile_worker._private_jobs IN ACCESS EXCLUSIVE MODE')
      await addJob(query, 'note', { n: 2 })
      // Within its first minute the library frees what was locked for hours: it waits for the table as well, and used to be counted.
      const asking = `SELECT 1 FROM pg_stat_activity
        WHERE application_name = 'test jobs' AND wait_event_type = 'Lock' AND query NOT LIKE '%4 hours%'`
      await eventually(async () => (await query(asking)).length === 2, 'both workers to look for a job')
      wire.cut()
    })
    await eventually(() => jobs.unavailable() !== undefined, 'the lanes to report the cut')
    const taken = 'SELECT 1 FROM graphile_worker.jobs WHERE locked_at IS NOT NULL'
    await eventually(async () => (await database.rows(taken)).length === 1, 'the job to be taken')
    wire.heal()
    await eventually(() => seen.length === 2, 'the job after the cut')
    await eventually(() => jobs.unavailable() === undefined, 'the lanes to be well')
  })
})

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
    scenario = await openScenario(platform, { roles: ['alerts', 'api'] })
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

  it('adds jobs in pooled transactions, and runs them on sessions of their own', async () => {
    const direct = databaseUrl(platform.config.servers.postgresDirect as string, databaseName(platform.namespace))
    const done: unknown[] = []
    let jobs: RunningJobs | undefined
    const database = pooled()
    try {
      const lanes = [{ tasks: { note: async (payload: unknown) => void done.push(payload) }, concurrency: 2 }]
      jobs = await runJobs({ url: direct, name: 'test', log: platform.log, lanes })
      await database.transaction(query => addJob(query, 'note', { number: 1 }))
      await eventually(() => done.length === 1, 'the job to run')
    } finally {
      await jobs?.stop()
      await database.close()
    }
  })

  it('is asked for nothing that a session would have to keep', () => {
    expect(pooler?.log()).not.to.match(/unsupported startup parameter|prepared statement/)
  })
})
