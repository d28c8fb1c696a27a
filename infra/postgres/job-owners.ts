/**
 * Frees the jobs of workers whose process has died.
 *
 * graphile-worker marks a job with the id of the pool that took it and unlocks it after four hours. Here
 * each pool also holds an advisory lock of the session named after that id: Postgres drops it the moment the process
 * dies. Invariant: a job is freed only when the lock of its pool is free. A process whose session
 * broke while it lives may see its job run twice, which tasks must tolerate; the session is opened again.
 */
import type { Client } from 'pg'
import type { Log } from '../runtime/log.ts'
import { connectClient } from './client.ts'

/** Holds the locks of this process's pools and frees the jobs of dead ones. */
export interface JobOwners {
  /** Declares a pool of this process alive. */
  claim(poolId: string): Promise<void>
  /** Releases a pool that has ended, so that its jobs become free. */
  disown(poolId: string): void
  unavailable(): string | undefined
  close(): Promise<void>
}

const CHECK_EVERY_MS = 3_000
const CONNECT_LIMIT_MS = 5_000
const QUERY_LIMIT_MS = 5_000

/** A peer that vanished without closing is noticed within a minute. */
const SESSION = 'SET tcp_keepalives_idle = 20; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3'
const HOLD = 'SELECT pg_advisory_lock(hashtextextended(id, 0)) FROM unnest($1::text[]) AS id'
const LET_GO = 'SELECT pg_advisory_unlock(hashtextextended($1, 0))'
const FREE = `WITH takers AS MATERIALIZED (
    SELECT DISTINCT locked_by AS id FROM graphile_worker.jobs WHERE locked_by <> ALL ($1::text[])
  ), dead AS MATERIALIZED (
    SELECT id FROM takers WHERE pg_try_advisory_xact_lock(hashtextextended(id, 0))
  )
  SELECT count(graphile_worker.force_unlock_workers(ARRAY[id]))::int AS freed FROM dead`

/** Opens the session and frees the jobs of dead processes again and again; retries while Postgres does not answer. */
export async function openJobOwners(url: string, options: { name: string; log: Log }): Promise<JobOwners> {
  const { name, log } = options
  const own = new Set<string>()
  let session: Client | undefined
  let isClosed = false
  let last: Promise<unknown> = Promise.resolve()

  /** One statement at a time: a session takes no more. */
  function enqueue<T>(work: () => Promise<T>): Promise<T> {
    const result = last.then(work)
    last = result.catch(() => undefined)
    return result
  }

  const openSession = (): Promise<Client> =>
    connectSession({
      url,
      name,
      held: own,
      lost(client) {
        if (session === client) session = undefined
      },
    })

  async function freeDead(): Promise<void> {
    session ??= await openSession()
    const { rows } = await session.query<{ freed: number }>(FREE, [[...own]])
    const freed = rows[0]?.freed ?? 0
    if (freed > 0) log.info({ freed }, 'jobs of dead processes are free again')
  }

  await enqueue(freeDead).catch(logFailure)
  const timer = setInterval(() => {
    enqueue(async () => (isClosed ? undefined : freeDead())).catch(logFailure)
  }, CHECK_EVERY_MS)

  function logFailure(error: unknown): void {
    log.warn({ err: error }, 'jobs of dead processes could not be freed')
  }

  return {
    claim(poolId) {
      own.add(poolId)
      return enqueue(async () => {
        // A session that is opened again holds all of this process's locks, this one included.
        if (session) await session.query(HOLD, [[poolId]])
        else session = await openSession()
      })
    },
    disown(poolId) {
      own.delete(poolId)
      // A session that is lost has released its locks.
      enqueue(async () => session?.query(LET_GO, [poolId])).catch(() => undefined)
    },
    unavailable: () => (session ? undefined : 'the session that owns jobs is lost'),
    async close() {
      isClosed = true
      clearInterval(timer)
      await enqueue(async () => session?.end()).catch(() => undefined)
    },
  }
}

/** A session that holds some locks; `lost` is called at its end. */
async function connectSession(options: {
  url: string
  name: string
  held: ReadonlySet<string>
  lost(client: Client): void
}): Promise<Client> {
  const { url, name, held, lost } = options
  const client = await connectClient(url, {
    application_name: `${name} job owner`,
    connectionTimeoutMillis: CONNECT_LIMIT_MS,
    query_timeout: QUERY_LIMIT_MS,
    keepAlive: true,
  })
  client.on('error', () => lost(client)).on('end', () => lost(client))
  try {
    await client.query(SESSION)
    await client.query(HOLD, [[...held]])
    return client
  } catch (error) {
    client.end().catch(() => undefined)
    throw error
  }
}
