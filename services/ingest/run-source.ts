/**
 * Runs the sources that the group has assigned to this process: publishes the past that the log lacks, then polls and publishes.
 *
 * States of a source: elsewhere → opening → backfilling → live → elsewhere, all of them left at once when the group revokes it. One
 * refresh at a time per source, and no source waits for another; ticks missed during a long refresh are skipped. A refresh of which a
 * portion could not be written begins again at index 0, once the writer is open again. Invariant: a source that stays assigned is not
 * interrupted by a rebalance; one that is assigned again gets another writer, which fences the one before.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { openBackoff, refusalOf } from '#infra/kafka/refusal.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import type { RateTable } from './fx/rate-table.ts'
import { type KeptRates, publishRates } from './fx/rates.ts'
import { keyOf, type Positions } from './positions.ts'
import { openRefreshPublisher, type Published, publishRefresh, type RefreshPublisher } from './publish-refresh.ts'
import { dueAt, pastRefreshes, tickAt } from './schedule.ts'
import type { FailedRefresh, OpenSource, Refresh, Source } from './source.ts'
import { openSourceWriter, type SourceWriter, WriteFailed, type WriterContext } from './source-writer.ts'

interface SourcesOptions {
  sources: readonly OpenSource[]
  rates: KeptRates
  /** How much of its past a source publishes that knows it. */
  history: { days: number; refreshes_per_day: number }
  positions: Positions
  writers: WriterContext
  log: Log
  metrics: Metrics
  /** The wall clock; only the schedule reads it. */
  clock(): number
  /** Aborts when no new refresh may begin. */
  stopping: AbortSignal
  /** Aborts when a refresh that is being published must end at the next record's boundary. */
  cut: AbortSignal
  fail(error: Error): void
}

/** The sources of this process. */
interface OwnedSources {
  /** Opens and cuts sources, so that exactly these run here. */
  assign(names: ReadonlySet<string>): void
  /** Why not all of them are live yet; undefined when they are. */
  pending(): string | undefined
  /** Resolves when all have ended, which they do once the process stops. */
  close(): Promise<void>
}

/** Publishing the exchange rates, which has an owner like a source. */
export const RATES = 'fx'

/** A source, or the rates, as long as this process owns it; it has stopped, and is cut, when it is lost as well. */
interface Holding extends SourcesOptions {
  name: string
  writer: SourceWriter
  publisher: RefreshPublisher
  meter: Meter
  lost: AbortController
  /** Refreshes of its past; undefined until its writer is open. */
  past: { done: number; total: number } | undefined
}

/** Opens an empty set of sources. */
export function openOwnedSources(options: SourcesOptions): OwnedSources {
  const { log, metrics, stopping, fail, positions } = options
  const meter = openMeter(metrics, log)
  const byName = new Map(options.sources.map(source => [keyOf(source), source]))
  const openPublisher = openRefreshPublisher(options.writers.kafka.codec)
  const owned = new Map<string, Holding>()
  const running = new Set<Promise<unknown>>()
  let hasJoined = false
  const gauge = metrics.gauge('marketlog_ingest_feeds', 'Feeds that this process runs.')
  const track = (work: Promise<unknown>): void => {
    const settled = work.catch(error => void (stopping.aborted || fail(error))).finally(() => running.delete(settled))
    running.add(settled)
  }
  const hold = (name: string): Holding => {
    const lost = new AbortController()
    const signals = {
      stopping: AbortSignal.any([stopping, lost.signal]),
      cut: AbortSignal.any([options.cut, lost.signal]),
    }
    const writer = openSourceWriter(options.writers, name, signals.stopping)
    const holding = {
      ...options,
      ...signals,
      name,
      writer,
      publisher: openPublisher(writer),
      meter,
      lost,
      past: undefined,
    }
    owned.set(name, holding)
    return holding
  }
  const run = async (gained: readonly Holding[]): Promise<void> => {
    const ends = await Promise.all(gained.map(({ writer }) => writer.open()))
    await positions.refresh(Math.max(0, ...ends.filter(end => end !== undefined)))
    await Promise.all(
      gained.map(holding => {
        holding.past = { done: 0, total: 0 }
        const source = byName.get(holding.name)
        return source ? runSource(source, holding) : runRates(holding)
      }),
    )
  }
  return {
    assign(names) {
      const lost = [...owned.values()].filter(({ name }) => !names.has(name))
      for (const holding of lost) {
        owned.delete(holding.name)
        holding.lost.abort()
        track(holding.writer.close())
      }
      const gained = [...byName.keys()].filter(name => names.has(name) && !owned.has(name)).map(hold)
      if (gained.length > 0) track(run(gained))
      if (names.has(RATES) && !owned.has(RATES)) track(run([hold(RATES)]))
      hasJoined = true
      const count = owned.size - Number(owned.has(RATES))
      gauge.set(count)
      log.info({ feeds: count, gained: gained.length, lost: lost.length }, 'ingest runs its feeds')
    },
    pending() {
      if (!hasJoined) return 'joining its group'
      const pasts = [...owned.values()].map(({ past }) => past)
      const opening = pasts.filter(past => past === undefined).length
      if (opening > 0) return `opening ${opening} feeds`
      const sum = (of: 'done' | 'total'): number => pasts.reduce((total, past) => total + (past?.[of] ?? 0), 0)
      return sum('done') < sum('total') ? `backfill: ${sum('done')} of ${sum('total')} refreshes` : undefined
    },
    async close() {
      while (running.size > 0) await Promise.all(running)
      await Promise.all([...owned.values()].map(({ writer }) => writer.close()))
    },
  }
}

const runSource = (source: OpenSource, holding: Holding): Promise<void> =>
  whileOwned(holding, async succeeded => {
    await publishPast(source, holding, succeeded)
    await pollWhenDue(source, holding, succeeded)
  })

const runRates = (holding: Holding): Promise<void> =>
  whileOwned(holding, () => publishRates(holding.rates, { ...holding, ...holding.publisher }, holding.stopping))

/** Begins work again whose records were not written; throws what no retry can fix, and after ten minutes of failures. */
async function whileOwned(
  { writer, stopping, positions }: Holding,
  work: (succeeded: () => void) => Promise<void>,
): Promise<void> {
  const backoff = openBackoff(() => performance.now())
  while (!stopping.aborted) {
    try {
      await work(backoff.succeeded)
    } catch (error) {
      if (!(error instanceof WriteFailed) || refusalOf(error) !== undefined) throw error
      const end = await writer.reopen(error)
      if (end !== undefined) await positions.refresh(end)
      if (stopping.aborted) return
      await delay(backoff.failed(error), undefined, { signal: stopping }).catch(() => undefined)
    }
  }
}

/** Publishes what the log lacks of the past of a source that knows it, oldest first, whichever process has begun with that. */
async function publishPast(source: OpenSource, holding: Holding, published: () => void): Promise<void> {
  const { history, positions, rates, clock, stopping } = holding
  const { connector } = source
  if (connector.refreshAt === undefined) return
  const missing = pastRefreshes(source, { ...history, now: clock(), published: positions.of(source) })
  const done = holding.past?.done ?? 0
  const past = { done, total: done + missing.length }
  holding.past = past
  for (const { at, after } of missing) {
    if (stopping.aborted) return
    const startedAt = performance.now()
    const table = rates.current()
    await publish(source, connector.refreshAt(at, after, table), table, holding, startedAt)
    past.done += 1
    published()
  }
}

async function pollWhenDue(source: OpenSource, holding: Holding, polled: () => void): Promise<void> {
  const { clock, positions, stopping } = holding
  const published = positions.of(source)
  let last = published === undefined ? Number.NEGATIVE_INFINITY : tickAt(source, published)
  while (!stopping.aborted) {
    const now = clock()
    const tick = tickAt(source, now)
    if (tick > last) {
      last = tick
      await pollOnce(source, holding, dueAt(source, tick), now)
      polled()
    }
    const waitMs = dueAt(source, Math.max(last, tickAt(source, clock())) + 1) - clock()
    await delay(Math.max(1, waitMs), undefined, { signal: stopping }).catch(() => undefined)
  }
}

async function pollOnce(source: OpenSource, holding: Holding, at: number, now: number): Promise<void> {
  const { positions, rates, stopping } = holding
  const table = rates.current()
  let startedAt = performance.now()
  const due = { at, now, after: positions.of(source), rates: table, signal: stopping }
  for await (const refresh of source.connector.poll(due)) {
    const { result } = await publish(source, refresh, table, holding, startedAt)
    startedAt = performance.now()
    if (result === 'cut' || stopping.aborted) return
  }
}

async function publish(
  source: OpenSource,
  refresh: Refresh | FailedRefresh,
  table: RateTable,
  { publisher, cut, positions, meter }: Holding,
  startedAt: number,
): Promise<Published> {
  const published = await publishRefresh(publisher, source, refresh, table, cut, positions)
  meter(source, published, performance.now() - startedAt)
  return published
}

type Meter = (source: Source, published: Published, durationMs: number) => void

/** Counts refreshes by provider and side, and logs a line for each that failed or has rejected entries, however many they are. */
function openMeter(metrics: Metrics, log: Log): Meter {
  const labelNames = ['provider', 'side']
  const refreshes = metrics.counter('marketlog_ingest_refreshes_total', 'Refreshes by result.', [
    ...labelNames,
    'result',
  ])
  const observations = metrics.counter(
    'marketlog_ingest_observations_total',
    'Published observations and sales.',
    labelNames,
  )
  const rejected = metrics.counter('marketlog_ingest_rejected_total', 'Rejected entries by reason.', [
    ...labelNames,
    'reason',
  ])
  const seconds = metrics.histogram(
    'marketlog_ingest_refresh_seconds',
    'Time from due to acknowledged.',
    labelNames,
    [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120],
  )
  return ({ provider, side }, published, durationMs) => {
    const labels = { provider, side }
    refreshes.inc({ ...labels, result: published.result })
    seconds.observe(labels, durationMs / 1_000)
    if (published.result === 'failed') {
      log.warn({ ...labels, reason: published.reason, detail: published.detail }, 'refresh failed')
    } else if (published.result === 'completed') {
      observations.inc(labels, published.observed)
      for (const [reason, count] of published.rejected) rejected.inc({ ...labels, reason }, count)
      if (published.rejected.size > 0) {
        log.warn({ ...labels, rejected: Object.fromEntries(published.rejected) }, 'entries rejected')
      }
    }
  }
}
