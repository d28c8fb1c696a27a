/**
 * Publishes simulated history before a market goes live: past refreshes of the feeds that the process owns, in time order.
 *
 * Writes through publish-refresh.ts. Refreshes begin oldest first across all of these feeds, a few at a time and one at a time
 * of each feed, as if the market had been polled for days. Invariant: what the log holds already is not repeated, whether the
 * last backfill ended, was killed, or was begun by another process.
 */
import { openBackoff } from '#streams/runner/slots.ts'
import type { OpenFeed } from './connectors/open.ts'
import { publishRefresh } from './publish-refresh.ts'
import { type FeedContext, recover } from './run-feed.ts'
import { type PastRefresh, planBackfill } from './schedule.ts'

/** A feed of this process with what it works with. */
export interface OwnedFeed extends OpenFeed {
  context: FeedContext
}

/** How far a backfill is. */
export interface BackfillProgress {
  done: number
  total: number
  observations: number
}

/** While a transaction waits for the broker, the next refresh is encoded. */
const AT_ONCE = 3

/** Publishes the history that the log lacks, up to now; ends early when the process stops, and leaves out feeds that it loses. */
export async function backfill(
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
      const published = await publishRefresh(refreshPublisher, feed, refresh, rates, cut, positions.recordsOf(feed, at))
      meter.refresh(feed, published, performance.now() - startedAt)
      if (published.result !== 'completed') return 0
      positions.advance(feed, at)
      return published.observed
    } catch (error) {
      await recover(context, backoff, error)
    }
  }
  return 0
}
