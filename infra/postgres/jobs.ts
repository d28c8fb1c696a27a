/**
 * Jobs in Postgres (graphile-worker): added inside the transaction that makes them necessary, run in the background.
 *
 * Reads and writes the schema graphile_worker and nothing else. Its LISTEN, its prepared statements and the locks of job-owners.ts
 * belong to a session, so no pooler may be between. States of a lane: running -> (lost) -> running | stopped;
 * a lane that loses Postgres is started again with growing pauses and never ends the process. Invariant: a job runs
 * at least once; one whose process died is freed by another process within seconds
 * (job-owners.ts), so a task must tolerate to be run twice. Payloads are never logged.
 */
import { EventEmitter, once } from 'node:events'
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises'
import {
  Logger,
  makeWorkerUtils,
  parseCronItems,
  run,
  runMigrations,
  type TaskList,
  type WorkerEvents,
} from 'graphile-worker'
import type { Pool } from 'pg'
import type { Log } from '../runtime/log.ts'
import { openPool } from './client.ts'
import { type JobOwners, openJobOwners } from './job-owners.ts'
import { acquireAdvisoryLock, type Query } from './pool.ts'

interface JobOptions {
  /** ISO 8601; at once when left out. */
  runAt?: string
  /** A waiting job of the same key is replaced; one that runs already is not touched, and the new one follows it. */
  key?: string
  /** A waiting job of the same key keeps its time where that is earlier. With a time, needs a transaction. */
  keepsEarlier?: boolean
  /** Lower runs first. */
  priority?: number
  /** Runs, crashes included, after which a job is given up. */
  maxAttempts?: number
}

/** Rejects to have the job run again later. The signal aborts when the process stops. */
export type JobTask = (payload: unknown, signal: AbortSignal) => Promise<void>

/** Tasks that share a number of workers, so that those of one lane never wait for those of another. */
export interface JobLane {
  tasks: Record<string, JobTask>
  concurrency: number
}

/** A lane polls for jobs of which no notice came: those whose time has come. */
const POLL_MS = 2_000
/** Before all others: the clock's tasks maintain the backlog and must not wait for it. */
const CLOCK_PRIORITY = -10
const CONNECTIONS = 10
const CONNECT_LIMIT_MS = 5_000
const QUERY_LIMIT_MS = 15_000
const RESTART_FIRST_MS = 500
const RESTART_LONGEST_MS = 15_000
/** Tasks end soon after their signal; the library's own ending may hang after a lost connection. */
const END_LIMIT_MS = 12_000
const CLOSE_LIMIT_MS = 3_000

const ADD_JOB = `SELECT graphile_worker.add_job($1, $2::json, run_at => coalesce($3, now()), max_attempts => $4, job_key => $5,
  priority => $6)`

/** Held until the commit, so that of two times that are asked for one sees the other. */
const ADD_NOW = `WITH lock AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtextextended($5, 1))) ${ADD_JOB} FROM lock`
const ADD_EARLIER = ADD_JOB.replace(
  'coalesce($3, now())',
  'least($3, (SELECT run_at FROM graphile_worker.jobs WHERE key = $5 AND locked_at IS NULL))',
)

/** Adds a job within the transaction of `query`: it exists when that commits, and not otherwise. */
export async function addJob(query: Query, task: string, payload: object, options: JobOptions = {}): Promise<void> {
  const { runAt = null, maxAttempts = null, key = null, priority = null, keepsEarlier = false } = options
  const values = [task, JSON.stringify(payload), runAt, maxAttempts, key, priority]
  if (!keepsEarlier) await query(ADD_JOB, values)
  else if (runAt === null) await query(ADD_NOW, values)
  else {
    // A statement of its own, since the next one must see what was added until the lock was had.
    await acquireAdvisoryLock(query, key as string)
    await query(ADD_EARLIER, values)
  }
}

/** A condition of SQL: no job of a key, itself an expression of SQL, is going to run within a minute. */
export const withoutJobSoon = (key: string): string => `NOT EXISTS (
    SELECT 1 FROM graphile_worker.jobs j WHERE j.key = ${key} AND j.attempts < j.max_attempts
      AND j.run_at < now() + interval '1 minute')`

/** Creates the schema of jobs, or brings it to the version of the library; part of the set-up step. */
export const setUpJobs = (url: string, log: Log): Promise<void> =>
  withPool(url, log, pgPool => runMigrations({ pgPool, logger: openLogger(log) }))

export async function removeGivenUpJobs(url: string, log: Log): Promise<void> {
  await withPool(url, log, async pgPool => {
    const jobs = await makeWorkerUtils({ pgPool, logger: openLogger(log) })
    try {
      await jobs.cleanup({ tasks: ['DELETE_PERMAFAILED_JOBS'] })
    } finally {
      await jobs.release()
    }
  })
}

/** For a task of a moment, which needs one connection, or two where it holds a lock beside. */
async function withPool(url: string, log: Log, work: (pool: Pool) => Promise<void>): Promise<void> {
  const pool = openJobsPool(url, 'set-up', 2, log)
  try {
    await work(pool)
  } finally {
    await pool.end()
  }
}

/** Runs jobs of a database until stopped; none while Postgres does not answer. */
export async function runJobs(options: {
  url: string
  /** Shown in pg_stat_activity. */
  name: string
  lanes: readonly JobLane[]
  /** Tasks of the first lane that the clock adds: `match` is a crontab's five columns, UTC. */
  clocks?: readonly { task: string; match: string }[]
  log: Log
}) {
  const { url, name, lanes, clocks = [], log } = options
  const ending = new AbortController()
  const pool = openJobsPool(url, name, CONNECTIONS, log)
  const owners = await openJobOwners(url, { name, log })
  const running = lanes.map((lane, order) =>
    keepLane({ lane, clocks: order === 0 ? clocks : [], pool, owners, log, signal: ending.signal }),
  )
  return {
    /** Why no job runs at the moment; undefined when all is well. */
    unavailable: () => running.map(lane => lane.unavailable()).find(Boolean) ?? owners.unavailable(),
    /** Begins no further job and waits for those under way, whose signal aborts. */
    async stop() {
      ending.abort()
      await Promise.all(running.map(lane => lane.ended))
      await owners.close()
      await Promise.race([pool.end(), pause(CLOSE_LIMIT_MS, undefined, { ref: false })])
    },
  }
}

export type RunningJobs = Awaited<ReturnType<typeof runJobs>>

interface LaneOptions {
  lane: JobLane
  clocks: readonly { task: string; match: string }[]
  pool: Pool
  owners: JobOwners
  log: Log
  signal: AbortSignal
}

function keepLane(options: LaneOptions): { unavailable(): string | undefined; ended: Promise<void> } {
  const { signal, log } = options
  let isRunning = false
  const keep = async (): Promise<void> => {
    for (let pauseMs = RESTART_FIRST_MS; !signal.aborted; pauseMs = Math.min(pauseMs * 2, RESTART_LONGEST_MS)) {
      const onStart = (): void => {
        isRunning = true
        pauseMs = RESTART_FIRST_MS
      }
      await runLane(options, onStart).catch(error =>
        log.warn({ err: error }, 'a lane of jobs ended and is started again'),
      )
      isRunning = false
      await pause(pauseMs, undefined, { signal }).catch(() => undefined)
    }
  }
  return { unavailable: () => (isRunning ? undefined : 'jobs cannot be read from Postgres'), ended: keep() }
}

/** Resolves when the lane has ended after it was lost or stopped, or has had its time to end; what it leaves behind is then free. */
async function runLane({ lane, clocks, pool, owners, log, signal }: LaneOptions, onStart: () => void): Promise<void> {
  const events: WorkerEvents = new EventEmitter()
  const lost = new AbortController()
  let poolId = ''
  let claimed: Promise<void> = Promise.resolve()
  events.on('pool:create', ({ workerPool }) => {
    poolId = workerPool.id
    claimed = owners.claim(poolId)
    // The next job waits for it and gets its error.
    claimed.catch(() => undefined)
  })
  // The library cannot write a job's result, after which it ends or hangs ending; or it does not learn whether it took a job, which
  // would be locked as long as the lane lives.
  events.on('pool:fatalError', () => lost.abort()).on('worker:getJob:error', () => lost.abort())
  const taskList: TaskList = Object.fromEntries(
    Object.entries(lane.tasks).map(([name, task]) => [name, (payload: unknown) => task(payload, signal)]),
  )
  const runner = await run({
    pgPool: pool,
    taskList,
    parsedCronItems: parseCronItems(clocks.map(one => ({ ...one, options: { priority: CLOCK_PRIORITY } }))),
    concurrency: lane.concurrency,
    noHandleSignals: true,
    pollInterval: POLL_MS,
    events,
    logger: openLogger(log),
    // Called before each job: none runs before its pool holds its lock.
    forbiddenFlags: async () => {
      claimed = claimed.catch(() => owners.claim(poolId))
      await claimed
      return null
    },
    // With a delay, even of 0, a lost connection ends the lane; without, it is an unhandled rejection.
    preset: { worker: { completeJobBatchDelay: 0, failJobBatchDelay: 0 } },
  })
  onStart()
  const ending = AbortSignal.any([signal, lost.signal])
  try {
    if (!ending.aborted) await Promise.race([runner.promise, once(ending, 'abort')])
    // A connection is lost with others: the library traces a worker to the console that fails while its lane is stopped.
    await nextTurn()
    runner.stop().catch(() => undefined)
    await Promise.race([runner.promise, pause(END_LIMIT_MS, undefined, { ref: false })])
  } finally {
    owners.release(poolId)
  }
}

function openJobsPool(url: string, name: string, connections: number, log: Log): Pool {
  const pool = openPool(url, {
    application_name: `${name} jobs`,
    max: connections,
    connectionTimeoutMillis: CONNECT_LIMIT_MS,
    query_timeout: QUERY_LIMIT_MS,
    keepAlive: true,
    // Jobs are begun and ended here, and added elsewhere. A server that crashes forgets at most that one was begun or
    // ended, which runs it again; a burst of alerts need not wait for the disk at each of the two.
    options: '-c synchronous_commit=off',
  })
  const warn = (error: Error) => log.warn({ reason: error.message }, 'postgres connection of jobs')
  pool.on('error', warn)
  pool.on('connect', client => void client.on('error', warn))
  return pool
}

/** The library's lines at a level below, without what it attaches: jobs carry their payload. */
function openLogger(log: Log): Logger {
  return new Logger(({ label }) => (level, message) => {
    const fields = { lane: label }
    if (level === 'error') log.warn(fields, message)
    else log.debug(fields, message)
  })
}
