/**
 * Publishes simulated history before a market goes live: all feeds' past refreshes in time order.
 *
 * Writes through publish-refresh.ts. Invariant: one refresh at a time, oldest first across all
 * providers, so the log reads as if the market had been watched for days; what the log holds already is not
 * repeated, whether the last backfill ended or was killed.
 */
import type { OpenFeed } from './connectors/open.ts'
import { publishRefresh } from './publish-refresh.ts'
import type { FeedRoom } from './run-feed.ts'
import { planBackfill } from './schedule.ts'

/** How far a backfill is. */
export interface BackfillProgress {
  done: number
  total: number
  observations: number
}

/** Publishes the history that the log lacks, up to now; ends early when the process stops. */
export async function backfill(
  feeds: readonly OpenFeed[],
  options: { days: number; refreshesPerDay: number },
  room: FeedRoom,
  onProgress: (progress: BackfillProgress) => void,
): Promise<void> {
  const plan = planBackfill(
    feeds.filter(feed => feed.connector.refreshAt !== undefined),
    { ...options, now: room.clock(), published: feed => room.positions.of(feed) },
  )
  let observations = 0
  for (const [done, { feed, at, after }] of plan.entries()) {
    if (room.stopping.aborted) return
    onProgress({ done, total: plan.length, observations })
    const rates = room.rates()
    const refresh = feed.connector.refreshAt?.(at, after, rates)
    if (!refresh) continue
    const startedAt = performance.now()
    const published = await publishRefresh(room.outlet, feed, refresh, rates, room.cut)
    room.meter.refresh(feed, published, performance.now() - startedAt)
    if (published.result !== 'completed') continue
    observations += published.observed
    await room.positions.advance(feed, at)
  }
  onProgress({ done: plan.length, total: plan.length, observations })
}
