/**
 * The feeds that the group has assigned to this process: opened when assigned, cut when revoked.
 *
 * States of a feed: elsewhere → opening → backfilling → live → elsewhere, all of them left at once when the group revokes it.
 * Invariant: a feed that stays assigned is not interrupted by a rebalance; one that is assigned again is another holding, whose
 * writer fences the one before.
 */
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import { openBackoff } from '#streams/runner/slots.ts'
import type { OpenFeed } from './connectors/open.ts'
import { type FeedWriter, feedWriter, type WriterContext } from './feed-writer.ts'
import { type KeptRates, publishRates } from './fx/publish-rates.ts'
import { keyOf } from './positions.ts'
import { publishRefresh } from './publish-refresh.ts'
import { type Acquire, openRefreshPublisher } from './refresh-publisher.ts'
import { type FeedContext, recover, runFeed } from './run-feed.ts'
import { type PastRefresh, planBackfill } from './schedule.ts'

interface OwnedFeeds {
  /** Opens and cuts feeds, so that exactly these run here. */
  assign(names: ReadonlySet<string>): void
  /** What is under way before all of them are live; undefined when they are. */
  pending(): string | undefined
  /** Resolves when all have ended, which they do once the process stops. */
  close(): Promise<void>
}

/** What the feeds of a process work with. */
interface OwnedFeedsOptions extends Pick<FeedContext, 'positions' | 'meter' | 'clock' | 'stopping' | 'cut'> {
  feeds: readonly OpenFeed[]
  rates: KeptRates
  history: { days: number; refreshes_per_day: number }
  writers: WriterContext
  /** Of portions. */
  acquire: Acquire
  log: Log
  metrics: Metrics
  fail(error: Error): void
}

/** The work of publishing exchange rates, which has an owner like a feed. */
export const RATES = 'fx'

const PROGRESS_EVERY_MS = 2_000

interface Holding {
  context: FeedContext
  writer: FeedWriter
  lost: AbortController
}

export function openOwnedFeeds(options: OwnedFeedsOptions): OwnedFeeds {
  const { feeds, log, stopping, fail, positions } = options
  const held = new Map<string, Holding>()
  const running = new Set<Promise<unknown>>()
  const joining = Symbol('group')
  const batches = new Map<symbol, string>([[joining, 'joining its group']])
  const gauge = options.metrics.gauge('marketlog_ingest_feeds', 'Feeds that this process runs.')
  const track = (work: Promise<unknown>): void => {
    const settled = work.catch(error => void (stopping.aborted || fail(error))).finally(() => running.delete(settled))
    running.add(settled)
  }
  const hold = (name: string): Holding => {
    const holding = openHolding(options, name)
    held.set(name, holding)
    return holding
  }
  const runFeeds = async (gained: readonly (OwnedFeed & Holding)[]): Promise<void> => {
    const batch = Symbol('batch')
    const report = (pending: string | undefined): void =>
      void (pending === undefined ? batches.delete(batch) : batches.set(batch, pending))
    report(`opening ${gained.length} feeds`)
    const ends = await Promise.all(gained.map(({ writer }) => writer.open()))
    await positions.refresh(Math.max(0, ...ends.filter(end => end !== undefined)))
    const isHistoric = ({ connector }: OpenFeed): boolean =>
      options.history.days > 0 && connector.refreshAt !== undefined
    const historic = gained.filter(isHistoric)
    const live = gained.filter(feed => !isHistoric(feed)).map(feed => runFeed(feed, feed.context))
    const later = async (): Promise<void> => {
      if (historic.length > 0) await runHistory(historic, options, report)
      report(undefined)
      await Promise.all(historic.map(feed => runFeed(feed, feed.context)))
    }
    await Promise.all([...live, later()])
  }
  return {
    assign(names) {
      const lost = [...held].filter(([name]) => !names.has(name))
      for (const [name, holding] of lost) {
        held.delete(name)
        holding.lost.abort()
        track(holding.writer.close())
      }
      const gained = feeds
        .filter(feed => names.has(keyOf(feed)) && !held.has(keyOf(feed)))
        .map(feed => ({ ...feed, ...hold(keyOf(feed)) }))
      if (gained.length > 0) track(runFeeds(gained))
      if (names.has(RATES) && !held.has(RATES)) track(runRates(hold(RATES), options))
      batches.delete(joining)
      const count = held.size - Number(held.has(RATES))
      gauge.set(count)
      log.info({ feeds: count, gained: gained.length, lost: lost.length }, 'ingest runs its feeds')
    },
    pending: () => [...batches.values()][0],
    async close() {
      while (running.size > 0) await Promise.all(running)
      await Promise.all([...held.values()].map(({ writer }) => writer.close()))
    },
  }
}

function openHolding(options: OwnedFeedsOptions, name: string): Holding {
  const lost = new AbortController()
  const stopping = AbortSignal.any([options.stopping, lost.signal])
  const cut = AbortSignal.any([options.cut, lost.signal])
  const writer = feedWriter(options.writers, name, stopping)
  const { positions, meter, clock, rates } = options
  const context: FeedContext = {
    positions,
    meter,
    clock,
    stopping,
    cut,
    refreshPublisher: openRefreshPublisher(options.writers.kafka.codec, writer, options.acquire),
    rates: rates.current,
    async reopen(failure) {
      const end = await writer.reopen(failure)
      if (end !== undefined) await positions.refresh(end)
    },
  }
  return { context, writer, lost }
}

async function runRates({ context, writer }: Holding, { rates, log, metrics }: OwnedFeedsOptions): Promise<void> {
  const backoff = openBackoff(() => performance.now())
  await writer.open()
  while (!context.stopping.aborted) {
    try {
      await publishRates(rates, { ...context.refreshPublisher, log, metrics }, context.stopping)
    } catch (error) {
      await recover(context, backoff, error)
    }
  }
}

function runHistory(
  feeds: readonly OwnedFeed[],
  { history, clock, stopping, log }: OwnedFeedsOptions,
  report: (pending: string) => void,
): Promise<void> {
  let reportedAt = performance.now()
  const onProgress = ({ done, total, observations }: BackfillProgress): void => {
    report(`backfill: ${done} of ${total} refreshes`)
    const isDone = done === total && total > 0
    if (!isDone && performance.now() - reportedAt < PROGRESS_EVERY_MS) return
    reportedAt = performance.now()
    log.info({ done, total, observations }, 'backfill')
  }
  const { days, refreshes_per_day: refreshesPerDay } = history
  return backfill(feeds, { days, refreshesPerDay, now: clock(), stopping }, onProgress)
}

interface OwnedFeed extends OpenFeed {
  context: FeedContext
}

interface BackfillProgress {
  done: number
  total: number
  observations: number
}

/** While a transaction waits for the broker, the next refresh is encoded. */
const AT_ONCE = 3

/**
 * Publishes the simulated history that the log lacks, up to now; ends early when the process stops, and leaves out feeds that it
 * loses. Refreshes begin oldest first across all feeds, a few at a time and one at a time of each feed. What the log holds already
 * is not repeated, whether the last backfill ended, was killed, or was begun by another process.
 */
async function backfill(
  feeds: readonly OwnedFeed[],
  options: { days: number; refreshesPerDay: number; now: number; stopping: AbortSignal },
  onProgress: (progress: BackfillProgress) => void,
): Promise<void> {
  const plan = planBackfill(
    feeds.filter(feed => feed.connector.refreshAt !== undefined),
    { ...options, published: feed => feed.context.positions.of(feed) },
  )
  let observations = 0
  const underWay = new Map<OwnedFeed, Promise<void>>()
  try {
    for (const [done, past] of plan.entries()) {
      await underWay.get(past.feed)
      if (underWay.size >= AT_ONCE) await Promise.race(underWay.values())
      if (options.stopping.aborted) return
      onProgress({ done, total: plan.length, observations })
      const publishing = publishPast(past).then(observed => {
        observations += observed
        underWay.delete(past.feed)
      })
      // Awaited before the feed's next refresh; until then a failure must not count as unhandled.
      publishing.catch(() => undefined)
      underWay.set(past.feed, publishing)
    }
  } finally {
    await Promise.all(underWay.values())
  }
  onProgress({ done: plan.length, total: plan.length, observations })
}

/** The observations that were published; a portion that could not be written begins its refresh again. */
async function publishPast({ feed, at, after }: PastRefresh<OwnedFeed>): Promise<number> {
  const { context } = feed
  const { refreshPublisher, positions, meter, cut } = context
  const backoff = openBackoff(() => performance.now())
  while (!context.stopping.aborted && at > (positions.of(feed) ?? Number.NEGATIVE_INFINITY)) {
    const rates = context.rates()
    const refresh = feed.connector.refreshAt?.(at, after, rates)
    if (!refresh) return 0
    const startedAt = performance.now()
    try {
      const published = await publishRefresh(refreshPublisher, feed, refresh, rates, cut, positions)
      meter.refresh(feed, published, performance.now() - startedAt)
      return published.result === 'completed' ? published.observed : 0
    } catch (error) {
      await recover(context, backoff, error)
    }
  }
  return 0
}
