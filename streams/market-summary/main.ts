/**
 * The role `market-summary`: the market as a whole, as an arbitrage snapshot and a summary of every item.
 *
 * Reads the live view, market.book-changes, ClickHouse and provider health; writes market.summaries and the views of
 * `{market}:*`. One process works, by a lease; others are standby. Invariant: all state is read again at each
 * start, so a kill at any moment costs the time of a start and nothing else.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { openReader } from '#infra/clickhouse/clickhouse.ts'
import { loadAnalytics } from '#infra/config/analytics.ts'
import { loadProviders } from '#infra/config/providers.ts'
import { loadSupply } from '#infra/config/supply.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { openPublisher } from '#infra/kafka/publisher.ts'
import { Fenced } from '#infra/redis/guarded-write.ts'
import { type Lease, openLease } from '#infra/redis/lease.ts'
import { closeRedis, openRedis } from '#infra/redis/redis.ts'
import { databaseName } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import type { RoleContext, StartRole } from '#infra/runtime/role.ts'
import { openLiveReader } from '#streams/live-view/reader.ts'
import { openHealthReader } from '#streams/provider-health/reader.ts'
import { type Analyst, openAnalyst } from './analyst.ts'
import { Board } from './board.ts'
import { followMarket } from './follow-market.ts'
import { openViewWriter } from './sink.ts'
import { openSummaryLog } from './summary-log.ts'
import { marketLeaseKey, summaryHeadKey } from './table.ts'

const NAME = 'market-summary'
/** A third of the 30 seconds that a snapshot may be old; a machine that is slow has two thirds, one that fails time for another. */
const ARBITRAGE_PACE: Pace = { everyMs: 10_000, atMostMs: 20_000 }
const SUMMARY_PACE: Pace = { everyMs: 120_000, atMostMs: 600_000 }
/** Of the time: a computation that takes longer than this share of its pace runs less often, since others share the machine. */
const WORKING_SHARE = 0.1
/** A killed holder is followed within this time. */
const LEASE_MS = 20_000
const RENEW_MS = 5_000
const STAND_BY_MS = 1_000
/** A read scans the changes of weeks; no client waits for it. */
const READ_LIMIT_MS = 90_000
const FAILURES_IN_A_ROW = 10

/** How often a view is computed, and the longest time between. */
interface Pace {
  everyMs: number
  atMostMs: number
}

/** Starts the role; it works in the background from then on. */
export const start: StartRole = async context => {
  const log = context.log.child({ role: NAME })
  const stop = new AbortController()
  const signal = AbortSignal.any([context.signal, stop.signal])
  const work = openWork(context, log, signal)
  let trouble: string | undefined
  const ended = work
    .run(reason => {
      trouble = reason
    })
    .catch(error => {
      if (!signal.aborted) context.fail(error)
    })
  return {
    name: NAME,
    ready: async () => trouble,
    async stop() {
      stop.abort()
      await ended
    },
  }
}

function openWork(context: RoleContext, log: Log, signal: AbortSignal) {
  const { config } = context
  const prefix = config.namespace
  const run = async (report: (trouble: string | undefined) => void): Promise<void> => {
    const redis = await openRedis(config, { name: `${prefix}${NAME}`, log })
    const database = databaseName(prefix)
    const options = { database, name: `marketlog-${NAME}`, readLimitMs: READ_LIMIT_MS }
    const clickhouse = openReader(config.servers.clickhouse, options)
    const kafka = connectKafka({ config, role: NAME, log })
    const publisher = await openPublisher(kafka, NAME)
    const lease = openLease(redis, marketLeaseKey(prefix), LEASE_MS)
    try {
      const registry = config.providersFile ? loadProviders(config.providersFile) : loadProviders()
      const keysOf = { ask: registry.askKeys, bid: registry.bidKeys }
      const board = new Board(keysOf)
      const live = openLiveReader(redis, prefix, keysOf)
      const market = await followMarket(board, { kafka, live, log, signal })
      if (!market) return
      market.lost.catch(error => context.fail(error))
      const health = openHealthReader(redis, prefix)
      const parts = { board, health, clickhouse, registry, analytics: loadAnalytics(), supply: loadSupply() }
      const catalog = await context.catalog()
      const views = openViewWriter(redis, lease, prefix)
      const open = async (): Promise<Analyst> => {
        const analyst = openAnalyst({ ...parts, catalog, views, log: await openSummaryLog(kafka, publisher) })
        if ((await redis.exists(summaryHeadKey(prefix))) === 0) await analyst.restore()
        return analyst
      }
      // A computation may take longer than the lease; a process that is frozen does not renew it.
      const renewing = setInterval(() => void lease.renew().catch(() => undefined), RENEW_MS)
      signal.addEventListener('abort', () => clearInterval(renewing), { once: true })
      await work(whileHeld(lease, open), { log, metrics: context.metrics, signal, report })
    } finally {
      await lease.release().catch(() => undefined)
      await publisher.close()
      await clickhouse.close()
      await closeRedis(redis)
    }
  }
  return { run }
}

/** Returns the analyst while the lease is held; the next holder reads what the log holds by then. */
function whileHeld(lease: Lease, open: () => Promise<Analyst>): () => Promise<Analyst | undefined> {
  let opened: Promise<Analyst> | undefined
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

interface WorkOptions {
  log: Log
  metrics: Metrics
  signal: AbortSignal
  report(trouble: string | undefined): void
}

/** Computes both views again and again until the signal; each at its own pace, since a summary takes longer. */
async function work(held: () => Promise<Analyst | undefined>, options: WorkOptions): Promise<void> {
  const { log, metrics, signal, report } = options
  const seconds = metrics.histogram('marketlog_market_summary_seconds', 'Time to compute and write a view.', ['view'])
  const repeat = async (view: string, pace: Pace, compute: (analyst: Analyst) => Promise<number>): Promise<void> => {
    for (let failures = 0; !signal.aborted; ) {
      const startedAt = performance.now()
      let waitMs = STAND_BY_MS
      try {
        const analyst = await held()
        if (analyst) {
          const end = seconds.startTimer({ view })
          const count = await compute(analyst)
          log.debug({ view, count, seconds: end() }, 'a view was written')
          waitMs = waitAfter(performance.now() - startedAt, pace)
        }
        failures = 0
        report(undefined)
      } catch (error) {
        if (signal.aborted) return
        if (!(error instanceof Fenced) && ++failures >= FAILURES_IN_A_ROW) throw error
        log.warn({ view, err: error }, 'a view of the market could not be computed; it is tried again')
        report(`the view ${view} could not be computed`)
      }
      await pause(waitMs, undefined, { signal }).catch(() => undefined)
    }
  }
  await Promise.all([
    repeat('arbitrage', ARBITRAGE_PACE, analyst => analyst.arbitrage(Date.now())),
    repeat('summary', SUMMARY_PACE, analyst => analyst.summary(Date.now())),
  ])
}

/** How long to wait after a computation that took some time. */
function waitAfter(tookMs: number, { everyMs, atMostMs }: Pace): number {
  const apart = Math.min(Math.max(everyMs, tookMs / WORKING_SHARE), atMostMs)
  return Math.max(0, apart - tookMs)
}
