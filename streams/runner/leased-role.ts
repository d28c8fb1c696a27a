/**
 * A role whose views one process at a time computes again and again, by a lease; the others are standby.
 *
 * Every process opens what computing needs; the one that holds the lease opens a worker besides, and another one each time that
 * it takes the lease, since the views may have had another writer meanwhile. A process that is frozen loses the lease, so what a
 * worker writes must be guarded by it. Nothing is kept but in memory: a kill costs the time of a start. States: standby ->
 * holding -> standby; ten minutes of nothing but failures end the process.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { type ClickhouseReader, openReader } from '#infra/clickhouse/clickhouse.ts'
import { Fenced } from '#infra/redis/guarded-write.ts'
import { type Lease, openLease } from '#infra/redis/lease.ts'
import { closeRedis, openRedis, type Redis } from '#infra/redis/redis.ts'
import { databaseName } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import type { RoleContext, StartRole } from '#infra/runtime/role.ts'
import type { Instant } from '#schemas/values/instant.ts'
import { openBackoff } from './slots.ts'
import { openWholeTables } from './whole-tables.ts'

/** How often a view is computed, and the longest time between. */
export interface Pace {
  everyMs: number
  atMostMs: number
}

/** What a leased role opens its own things with; all of it is closed when the role ends. */
export interface LeasedTools {
  context: RoleContext
  redis: Redis
  clickhouse: ClickhouseReader
  lease: Lease
  log: Log
  signal: AbortSignal
  /** Closes something when the role ends, before what was opened earlier. */
  onEnd(close: () => Promise<void>): void
}

/** A view that the holder of the lease computes. */
interface LeasedTask<Worker> {
  view: string
  pace: Pace
  /** Computes and writes the view of a moment; resolves with a count for the log, or with undefined where none is due. */
  compute(worker: Worker, asOf: Instant): Promise<number | undefined>
}

/** What makes a role. */
interface LeasedRole<Worker> {
  name: string
  leaseKey(prefix: string): string
  /** Resolves with how a worker is opened, or with undefined when the role was stopped first. */
  open(tools: LeasedTools): Promise<(() => Promise<Worker>) | undefined>
  tasks: readonly LeasedTask<Worker>[]
}

/** Of the time: a computation that takes longer than this share of its pace runs less often, since others share the machine. */
const WORKING_SHARE = 0.1
/** A killed holder is followed within this time. */
const LEASE_MS = 20_000
const RENEW_MS = 5_000
const STAND_BY_MS = 1_000
/** A read scans the changes of weeks; no client waits for it. */
const READ_LIMIT_MS = 90_000

/** Makes the start of a role; it works in the background from then on. */
export const leasedRole =
  <Worker>(role: LeasedRole<Worker>): StartRole =>
  async context => {
    const log = context.log.child({ role: role.name })
    const stop = new AbortController()
    const signal = AbortSignal.any([context.signal, stop.signal])
    let trouble: string | undefined
    const report = (found: string | undefined): void => {
      trouble = found
    }
    const ended = run(role, { context, log, signal }, report).catch(error => {
      if (!signal.aborted) context.fail(error)
    })
    return {
      name: role.name,
      ready: async () => trouble,
      async stop() {
        stop.abort()
        await ended
      },
    }
  }

async function run<Worker>(
  { name, leaseKey, open, tasks }: LeasedRole<Worker>,
  { context, log, signal }: Pick<LeasedTools, 'context' | 'log' | 'signal'>,
  report: Report,
): Promise<void> {
  const { config, metrics } = context
  const prefix = config.namespace
  const redis = await openRedis(config, { name: `${prefix}${name}`, log })
  const options = { database: databaseName(prefix), name: `marketlog-${name}`, readLimitMs: READ_LIMIT_MS }
  const clickhouse = openWholeTables(openReader(config.servers.clickhouse, options))
  const lease = openLease(redis, leaseKey(prefix), LEASE_MS)
  const ends: (() => Promise<void>)[] = [() => closeRedis(redis), () => clickhouse.close()]
  try {
    const tools = {
      context,
      redis,
      clickhouse,
      lease,
      log,
      signal,
      onEnd: (close: () => Promise<void>) => void ends.push(close),
    }
    const openWorker = await open(tools)
    if (!openWorker) return
    // A computation may take longer than the lease; a process that is frozen does not renew it.
    const renewing = setInterval(() => void lease.renew().catch(() => undefined), RENEW_MS)
    signal.addEventListener('abort', () => clearInterval(renewing), { once: true })
    const held = whileHeld(lease, openWorker)
    const metric = `marketlog_${name.replaceAll('-', '_')}_seconds`
    const seconds = metrics.histogram(metric, 'Time to compute and write a view.', ['view'])
    await Promise.all(tasks.map(task => repeat(task, held, { log, seconds, signal, report })))
  } finally {
    await lease.release().catch(() => undefined)
    for (const close of ends.reverse()) await close()
  }
}

/** Returns the worker while the lease is held. */
function whileHeld<Worker>(lease: Lease, open: () => Promise<Worker>): () => Promise<Worker | undefined> {
  let opened: Promise<Worker> | undefined
  return async () => {
    const held = await lease.hold()
    if (held !== 'renewed') opened = undefined
    if (held === undefined) return undefined
    opened ??= open()
    try {
      return await opened
    } catch (error) {
      opened = undefined
      throw error
    }
  }
}

type Report = (trouble: string | undefined) => void

interface Repeating {
  log: Log
  seconds: ReturnType<Metrics['histogram']>
  signal: AbortSignal
  report: Report
}

/** Computes a view again and again until the signal, each at its own pace, since one may take longer than another. */
async function repeat<Worker>(
  { view, pace, compute }: LeasedTask<Worker>,
  held: () => Promise<Worker | undefined>,
  { log, seconds, signal, report }: Repeating,
): Promise<void> {
  const backoff = openBackoff(Date.now)
  while (!signal.aborted) {
    let waitMs = STAND_BY_MS
    try {
      const worker = await held()
      if (worker !== undefined) {
        // Not from before the worker was opened: six seconds of that were a minute without a first summary.
        const startedAt = performance.now()
        const end = seconds.startTimer({ view })
        const count = await compute(worker, Date.now())
        if (count !== undefined) log.debug({ view, count, seconds: end() }, 'a view was written')
        waitMs = waitAfter(performance.now() - startedAt, pace)
      }
      backoff.succeeded()
      report(undefined)
    } catch (error) {
      if (signal.aborted) return
      if (!(error instanceof Fenced)) waitMs = backoff.failed(error)
      log.warn({ view, err: error }, 'a view could not be computed; it is tried again')
      report(`the view ${view} could not be computed`)
    }
    await pause(waitMs, undefined, { signal }).catch(() => undefined)
  }
}

/** How long to wait after a computation that took some time. */
function waitAfter(tookMs: number, { everyMs, atMostMs }: Pace): number {
  const apart = Math.min(Math.max(everyMs, tookMs / WORKING_SHARE), atMostMs)
  return Math.max(0, apart - tookMs)
}
