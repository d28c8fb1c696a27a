/** Jobs in Postgres: they belong to the transaction that adds them, and outlive the process that has taken them. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { addJob, type JobLane, type JobTask, type RunningJobs, runJobs, setUpJobs } from '#infra/postgres/jobs.ts'
import { migrate } from '#infra/postgres/migrate.ts'
import { type Database, databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { eventually } from '#test/harness/eventually.ts'
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
  async function start(lanes: JobLane[], { to = url }: { to?: string } = {}) {
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
    await addJob(database.rows, 'note', { n: 1 }, { key: 'same', runAt: Date.now() + 3_600_000 })
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
    await start([
      {
        tasks: {
          fail: async () => {
            runs += 1
            if (runs < 2) throw new Error('the first run fails')
          },
        },
        concurrency: 1,
      },
    ])
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
    const jobs = await start([{ tasks: { note: task }, concurrency: 2 }], { to: wire.url })
    await addJob(database.rows, 'note', { n: 1 })
    await eventually(async () => seen.length === 1 && (await waiting()) === 0, 'the job before the cut')
    await database.transaction(async query => {
      await query('LOCK TABLE graphile_worker._private_jobs IN ACCESS EXCLUSIVE MODE')
      await addJob(query, 'note', { n: 2 })
      const asking = `SELECT 1 FROM pg_stat_activity WHERE application_name = 'test jobs' AND wait_event_type = 'Lock'`
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
