/**
 * The loop of one feed in the process that owns it: wait until it is due, poll its source, publish.
 *
 * Writes through publish-refresh.ts. States: waiting, polling, publishing, opening its writer again; every exit
 * leads back to waiting, or ends when the process stops or loses the feed. One refresh at a time per feed, and no feed waits for
 * another's source; ticks missed during a long refresh are skipped. A refresh of which a portion could not be written begins again
 * at index 0.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { refusalOf } from '#infra/kafka/refusal.ts'
import { type Backoff, openBackoff } from '#streams/runner/slots.ts'
import type { OpenFeed } from './connectors/open.ts'
import { WriteFailed } from './feed-writer.ts'
import type { RateTable } from './fx/rate-table.ts'
import type { Meter } from './meter.ts'
import type { Positions } from './positions.ts'
import { publishFailure, publishRefresh } from './publish-refresh.ts'
import type { RefreshPublisher } from './refresh-publisher.ts'
import { dueAt, tickAt } from './schedule.ts'

export interface FeedContext {
  refreshPublisher: RefreshPublisher
  /** Makes the publisher usable again after it could not write; returns without when the feed is lost or the process stops. */
  reopen(failure: WriteFailed): Promise<void>
  positions: Positions
  meter: Meter
  rates(): RateTable
  /** The wall clock; only the schedule reads it. */
  clock(): number
  /** Aborts when no new refresh may begin: the process stops, or another process owns the feed. */
  stopping: AbortSignal
  /** Aborts when a refresh that is being published must end at the next record's boundary. */
  cut: AbortSignal
}

export async function runFeed(feed: OpenFeed, context: FeedContext): Promise<void> {
  const backoff = openBackoff(() => performance.now())
  while (!context.stopping.aborted) {
    try {
      await pollWhenDue(feed, context, backoff.succeeded)
    } catch (error) {
      await recover(context, backoff, error)
    }
  }
}

/** Waits and opens the writer again after a portion was not written; throws what no retry can fix, and after ten minutes. */
export async function recover(context: FeedContext, backoff: Backoff, error: unknown): Promise<void> {
  if (!(error instanceof WriteFailed) || refusalOf(error) !== undefined) throw error
  await context.reopen(error)
  if (context.stopping.aborted) return
  await delay(backoff.failed(error), undefined, { signal: context.stopping }).catch(() => undefined)
}

async function pollWhenDue(feed: OpenFeed, context: FeedContext, polled: () => void): Promise<void> {
  const published = context.positions.of(feed)
  let last = published === undefined ? Number.NEGATIVE_INFINITY : tickAt(feed, published)
  while (!context.stopping.aborted) {
    const now = context.clock()
    const tick = tickAt(feed, now)
    if (tick > last) {
      last = tick
      await pollOnce(feed, context, dueAt(feed, tick), now)
      polled()
    }
    const waitMs = dueAt(feed, Math.max(last, tickAt(feed, context.clock())) + 1) - context.clock()
    await delay(Math.max(1, waitMs), undefined, { signal: context.stopping }).catch(() => undefined)
  }
}

async function pollOnce(feed: OpenFeed, context: FeedContext, at: number, now: number): Promise<void> {
  const { refreshPublisher, positions, meter, stopping, cut } = context
  const rates = context.rates()
  let startedAt = performance.now()
  const due = { at, now, after: positions.of(feed), rates, signal: stopping }
  for await (const polled of feed.connector.poll(due)) {
    const published =
      polled.kind === 'failed'
        ? await publishFailure(refreshPublisher, feed, polled)
        : await publishRefresh(refreshPublisher, feed, polled, rates, cut, positions)
    meter.refresh(feed, published, performance.now() - startedAt)
    startedAt = performance.now()
    if (published.result === 'cut' || stopping.aborted) return
  }
}
