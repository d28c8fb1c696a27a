/**
 * Runs a view that is computed of other views: one process at a time computes it again and again, by a lease; the others are standby.
 *
 * Before a version is computed its sources reach the ends that their topics have at that moment, so the version is as old as the moment,
 * whichever of them is the slowest. Where one does not get there, nothing is written: the version before stays and ages. A process that
 * is frozen loses the lease, which guards what it writes (computed-versions.ts). Nothing is kept but in memory: a kill costs the time of
 * a start. States: standby -> computing -> standby; ten minutes of nothing but failures end the process.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { openReader } from '#infra/clickhouse/clickhouse.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { openLagReader } from '#infra/kafka/lag.ts'
import { openBackoff } from '#infra/kafka/refusal.ts'
import { type Lease, openLease } from '#infra/redis/lease.ts'
import { closeRedis, openRedis, type ViewStore } from '#infra/redis/redis.ts'
import { databaseName } from '#infra/runtime/config.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import type { RoleContext, RunningRole } from '#infra/runtime/role.ts'
import { topics } from '#schemas/topics.ts'
import type { Instant } from '#schemas/values/instant.ts'
import { computedLeaseKey, publishVersion } from './computed-versions.ts'
import { Conflict } from './positions.ts'
import type { Computation, ComputedSnapshot, ComputedView, ComputingTools } from './view.ts'
import { openWholeTables } from './whole-tables.ts'

/** From a version to the next look whether one is due: a third of the 30 seconds that the youngest snapshots may be old. */
const EVERY_MS = 10_000
const LEASE_MS = 20_000
const RENEW_MS = 5_000
const STAND_BY_MS = 1_000
/** A read scans the changes of weeks; no client waits for it. */
const READ_LIMIT_MS = 90_000
/** Tables take rows once a second. */
const SOURCES_LIMIT_MS = 5_000
const SOURCES_POLL_MS = 250

export async function runComputedView(context: RoleContext, view: ComputedView): Promise<RunningRole> {
  const log = context.log.child({ role: view.name })
  const stop = new AbortController()
  const signal = AbortSignal.any([context.signal, stop.signal])
  const troubles = new Map<string, string>()
  const ended = run(view, { context, log, signal }, troubles).catch(error => {
    if (!signal.aborted) context.fail(error)
  })
  return {
    name: view.name,
    ready: async () => [...troubles.values()][0],
    async stop() {
      stop.abort()
      await ended
    },
  }
}

async function run(
  view: ComputedView,
  { context, log, signal }: Pick<ComputingTools, 'context' | 'log' | 'signal'>,
  troubles: Map<string, string>,
): Promise<void> {
  const { config, metrics } = context
  const { name } = view
  const prefix = config.namespace
  const redis = await openRedis(config, { name: `${prefix}${name}`, log })
  const options = { database: databaseName(prefix), name: `marketlog-${name}`, readLimitMs: READ_LIMIT_MS }
  const clickhouse = openWholeTables(openReader(config.servers.clickhouse, options))
  const lease = openLease(redis, computedLeaseKey(name, prefix), LEASE_MS)
  const kafka = connectKafka({ config, role: name, log })
  // A computation may take longer than the lease; a process that is frozen does not renew it.
  const renewing = setInterval(() => void lease.renew().catch(() => undefined), RENEW_MS)
  try {
    const computation = await view.open({ context, kafka, redis, clickhouse, log, signal })
    if (computation === undefined) return
    const metric = `marketlog_${name.replaceAll('-', '_')}_seconds`
    const seconds = metrics.histogram(metric, 'Time to compute and write a view.', ['view'])
    const { snapshots, own } = computation
    const store = { redis, prefix }
    const repeating = { view, kafka, lease, store, log, seconds, signal, troubles, own }
    await Promise.all(snapshots.map(snapshot => repeat(snapshot, repeating)))
  } finally {
    clearInterval(renewing)
    await lease.release().catch(() => undefined)
    await clickhouse.close()
    await closeRedis(redis)
  }
}

interface Repeating extends Pick<ComputingTools, 'kafka' | 'log' | 'signal'>, Pick<Computation, 'own'> {
  view: ComputedView
  lease: Lease
  store: ViewStore
  seconds: ReturnType<Metrics['histogram']>
  /** By snapshot, why it is not computed now. */
  troubles: Map<string, string>
}

/** Computes a snapshot again and again until the signal, each at its own pace, since one may take longer than another. */
async function repeat(snapshot: ComputedSnapshot, repeating: Repeating): Promise<void> {
  const { lease, store, log, seconds, signal, troubles } = repeating
  const { name, restMs = 0 } = snapshot
  const backoff = openBackoff(Date.now)
  let last: { asOf: Instant; feeds: ReadonlySet<string> } = { asOf: Number.NEGATIVE_INFINITY, feeds: new Set() }
  /** Resolves with how long to wait, and with why nothing could be computed. */
  const once = async (): Promise<{ waitMs: number; trouble?: string }> => {
    if ((await lease.hold()) === undefined) return { waitMs: STAND_BY_MS }
    const asOf = Date.now()
    const feeds = await snapshot.feeds(asOf)
    const isDue = asOf >= last.asOf + restMs || feeds.some(feed => !last.feeds.has(feed))
    if (feeds.length === 0 || !isDue) return { waitMs: EVERY_MS }
    const late = await lateSource(repeating, snapshot)
    if (late !== undefined) return { waitMs: STAND_BY_MS, trouble: `${name} waits for ${late}` }
    const end = seconds.startTimer({ view: name })
    const computed = await snapshot.compute(asOf)
    if (computed !== undefined) {
      await publishVersion(store, snapshot, lease, { ...computed, asOf })
      end()
      last = { asOf, feeds: new Set(feeds) }
    }
    return { waitMs: EVERY_MS }
  }
  while (!signal.aborted) {
    let result: Awaited<ReturnType<typeof once>>
    try {
      result = await once()
      backoff.succeeded()
    } catch (error) {
      if (signal.aborted) return
      const waitMs = error instanceof Conflict ? STAND_BY_MS : backoff.failed(error)
      result = { waitMs, trouble: `${name} could not be computed` }
      log.warn({ view: name, err: error }, 'a view could not be computed; it is tried again')
    }
    if (result.trouble === undefined) troubles.delete(name)
    else troubles.set(name, result.trouble)
    await pause(result.waitMs, undefined, { signal }).catch(() => undefined)
  }
}

/** The first source that does not reach the ends of now within some seconds; undefined where all do. */
async function lateSource(
  { view, kafka, own, signal }: Repeating,
  { of }: Pick<ComputedSnapshot, 'of'>,
): Promise<string | undefined> {
  const groups = Object.entries(view.computedOf).map(([group, topic]) => ({ group, topic }))
  const awaited = groups.filter(({ group }) => of?.includes(group) ?? true)
  const read = [...awaited.map(({ topic }) => topic), ...(own ? [own.topic] : [])]
  // Opened for each check: a client that has lost its brokers may not find the next ones.
  const reader = await openLagReader(kafka, read)
  try {
    const ends = await reader.ends(read)
    const until = performance.now() + SOURCES_LIMIT_MS
    for (;;) {
      const late = (await reader.read(awaited, ends)).find(({ lag }) => lag > 0)
      const isOwnLate = own && ends.get(own.topic)?.some((end, partition) => own.position(partition) < end)
      if (!late && !isOwnLate) return undefined
      if (performance.now() > until || signal.aborted) return late?.group ?? (own && topics[own.topic].name)
      await pause(SOURCES_POLL_MS, undefined, { signal }).catch(() => undefined)
    }
  } finally {
    await reader.close()
  }
}
