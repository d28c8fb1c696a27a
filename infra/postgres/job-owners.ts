/**
 * Frees the jobs of workers whose process has died.
 *
 * graphile-worker marks a job with the id of the pool that runs it and unlocks it after four hours. Here
 * each pool also holds an advisory lock of the session named after that id: Postgres drops it the moment the process
 * dies. Invariant: a job is freed only when the lock of its pool is free. A process whose session
 * broke while it lives may see its job run twice, which tasks must tolerate; the session is opened again.
 */
import PQueue from 'p-queue'
import type { Client } from 'pg'
import type { Log } from '../runtime/log.ts'
import { connectClient } from './client.ts'

export type JobOwners = Awaited<ReturnType<typeof openJobOwners>>

const CHECK_EVERY_MS = 3_000
const CONNECT_LIMIT_MS = 5_000
const QUERY_LIMIT_MS = 5_000

/** A peer that vanished without closing is noticed within a minute. */
const SESSION = 'SET tcp_keepalives_idle = 20; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3'
const LOCK = 'SELECT pg_advisory_lock(hashtextextended(id, 0)) FROM unnest($1::text[]) AS id'
const UNLOCK = 'SELECT pg_advisory_unlock(hashtextextended($1, 0))'
const FREE = `WITH owners AS MATERIALIZED (
    SELECT DISTINCT locked_by AS id FROM graphile_worker.jobs WHERE locked_by <> ALL ($1::text[])
  ), dead AS MATERIALIZED (
    SELECT id FROM owners WHERE pg_try_advisory_xact_lock(hashtextextended(id, 0))
  )
  SELECT count(graphile_worker.force_unlock_workers(ARRAY[id]))::int AS freed FROM dead`

/** Opens the session and frees the jobs of dead processes again and again; retries while Postgres does not answer. */
export async function openJobOwners(url: string, { name, log }: { name: string; log: Log }) {
  const poolIds = new Set<string>()
  let session: Client | undefined
  let isClosed = false
  /** One statement at a time: a session runs no more. */
  const queue = new PQueue({ concurrency: 1 })

  /** Opens a session that holds the locks of all pools. */
  async function openSession(): Promise<Client> {
    const client = await connectClient(url, {
      application_name: `${name} job owner`,
      connectionTimeoutMillis: CONNECT_LIMIT_MS,
      query_timeout: QUERY_LIMIT_MS,
      keepAlive: true,
    })
    const forget = () => {
      if (session === client) session = undefined
    }
    client.on('error', forget).on('end', forget)
    try {
      await client.query(SESSION)
      await client.query(LOCK, [[...poolIds]])
      return client
    } catch (error) {
      client.end().catch(() => undefined)
      throw error
    }
  }

  const freeDead = (): Promise<void> =>
    queue
      .add(async () => {
        if (isClosed) return
        session ??= await openSession()
        const { rows } = await session.query<{ freed: number }>(FREE, [[...poolIds]])
        const freed = rows[0]?.freed ?? 0
        if (freed > 0) log.info({ freed }, 'jobs of dead processes are free again')
      })
      .catch(error => log.warn({ err: error }, 'jobs of dead processes could not be freed'))

  await freeDead()
  const timer = setInterval(() => {
    // A server that hangs makes each check last longer than the time to the next.
    if (queue.size === 0) void freeDead()
  }, CHECK_EVERY_MS)

  return {
    /** Declares a pool of this process alive. */
    claim(poolId: string): Promise<void> {
      poolIds.add(poolId)
      return queue.add(async () => {
        // A session that is opened again holds all of this process's locks, this one included.
        if (session) await session.query(LOCK, [[poolId]])
        else session = await openSession()
      })
    },
    /** Releases a pool that has ended, so that its jobs become free. */
    release(poolId: string): void {
      poolIds.delete(poolId)
      // A session that is lost has released its locks.
      queue.add(async () => session?.query(UNLOCK, [poolId])).catch(() => undefined)
    },
    unavailable: () => (session ? undefined : 'the session that owns jobs is lost'),
    async close() {
      isClosed = true
      clearInterval(timer)
      await queue.add(async () => session?.end()).catch(() => undefined)
    },
  }
}
