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
import { openPortions, type Published, publishRefresh, type RefreshPublisher } from './publish-refresh.ts'
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
  /** Aborts when no new refresh may begin. */
  stopping: AbortSignal
  /** Aborts when a refresh that is being published must end at the next record's boundary. */
  cut: AbortSignal
  fail(error: Error): void
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

export function openOwnedSources(options: SourcesOptions) {
  const { log, metrics, stopping, fail, positions, writers } = options
  const shared = { ...options, meter: openMeter(metrics, log), past: undefined }
  const { codec } = writers.kafka
  const portions = openPortions()
  const byName = new Map(options.sources.map(source => [keyOf(source), source]))
  const owned = new Map<string, Holding>()
  const running = new Set<Promise<unknown>>()
  let hasJoined = false
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
    const writer = openSourceWriter(writers, name, signals.stopping)
    const holding: Holding = {
      ...shared,
      ...signals,
      name,
      writer,
      publisher: { codec, send: writer.send, portions },
      lost,
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
        return whileOwned(holding, succeeded =>
          source ? runSource(source, holding, succeeded) : publishRates(holding),
        )
      }),
    )
  }
  return {
    /** Opens and cuts sources, so that exactly these run here. */
    assign(names: ReadonlySet<string>): void {
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
      log.info({ owned: owned.size, gained: gained.length, lost: lost.length }, 'ingest runs its feeds')
    },
    /** Why not all of them are live yet; undefined when they are. */
    pending(): string | undefined {
      if (!hasJoined) return 'joining its group'
      const pasts = [...owned.values()].map(({ past }) => past)
      const opening = pasts.filter(past => past === undefined).length
      if (opening > 0) return `opening ${opening} feeds`
      const sum = (of: 'done' | 'total'): number => pasts.reduce((total, past) => total + (past?.[of] ?? 0), 0)
      return sum('done') < sum('total') ? `backfill: ${sum('done')} of ${sum('total')} refreshes` : undefined
    },
    /** Resolves when all have ended, which they do once the process stops. */
    async close(): Promise<void> {
      while (running.size > 0) await Promise.all(running)
      await Promise.all([...owned.values()].map(({ writer }) => writer.close()))
    },
  }
}

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

/** Publishes what the log lacks of its past, oldest first, whichever process has begun with that, and then polls it. */
async function runSource(source: OpenSource, holding: Holding, succeeded: () => void): Promise<void> {
  const { history, positions, rates, stopping, past } = holding
  const { refreshAt } = source.connector
  const now = Date.now()
  const missing = refreshAt ? pastRefreshes(source, { ...history, now, published: positions.of(source) }) : []
  const progress = { done: past?.done ?? 0, total: (past?.done ?? 0) + missing.length }
  holding.past = progress
  for (const { at, after } of missing) {
    if (stopping.aborted || refreshAt === undefined) return
    const table = rates.current()
    await publish(source, refreshAt(at, after, table), table, holding)
    progress.done += 1
    succeeded()
  }
  await pollWhenDue(source, holding, succeeded)
}

async function pollWhenDue(source: OpenSource, holding: Holding, succeeded: () => void): Promise<void> {
  const { positions, stopping } = holding
  const published = positions.of(source)
  let last = published === undefined ? Number.NEGATIVE_INFINITY : tickAt(source, published)
  while (!stopping.aborted) {
    const now = Date.now()
    const tick = tickAt(source, now)
    if (tick > last) {
      last = tick
      await pollOnce(source, holding, dueAt(source, tick), now)
      succeeded()
    }
    const waitMs = dueAt(source, Math.max(last, tickAt(source, Date.now())) + 1) - Date.now()
    await delay(Math.max(1, waitMs), undefined, { signal: stopping }).catch(() => undefined)
  }
}

async function pollOnce(source: OpenSource, holding: Holding, at: number, now: number): Promise<void> {
  const { positions, rates, stopping } = holding
  const table = rates.current()
  const due = { at, now, after: positions.of(source), rates: table, signal: stopping }
  for await (const refresh of source.connector.poll(due)) {
    const { result } = await publish(source, refresh, table, holding)
    if (result === 'cut' || stopping.aborted) return
  }
}

async function publish(
  source: OpenSource,
  refresh: Refresh | FailedRefresh,
  table: RateTable,
  { publisher, cut, positions, meter }: Holding,
): Promise<Published> {
  const published = await publishRefresh(publisher, source, refresh, table, cut, positions)
  meter(source, published)
  return published
}

type Meter = (source: Source, published: Published) => void

/** Counts refreshes by provider and side, and logs a line for each that failed or has rejected entries, however many they are. */
function openMeter(metrics: Metrics, log: Log): Meter {
  const names = ['provider', 'side']
  const refreshes = metrics.counter('marketlog_ingest_refreshes_total', 'Refreshes by result.', [...names, 'result'])
  const observations = metrics.counter('marketlog_ingest_observations_total', 'Observations and sales.', names)
  return ({ provider, side }, published) => {
    const labels = { provider, side }
    refreshes.inc({ ...labels, result: published.result })
    if (published.result === 'failed')
      log.warn({ ...labels, reason: published.reason, detail: published.detail }, 'refresh failed')
    if (published.result !== 'completed') return
    observations.inc(labels, published.observed)
    if (published.rejected.size > 0)
      log.warn({ ...labels, rejected: Object.fromEntries(published.rejected) }, 'entries rejected')
  }
}
