/**
 * The life of one feed: wait until it is due, poll its source, publish what comes, note how far it is.
 *
 * Writes through publish-refresh.ts and positions.ts. States: waiting, polling, publishing; every exit
 * leads back to waiting, or ends when the process stops. Invariant: one refresh at a time per feed,
 * and no feed waits for another's source; ticks missed while one took long are left out, not
 * made up for.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { OpenFeed } from './connectors/open.ts'
import type { RateTable } from './fx/rate-table.ts'
import type { Meter } from './meter.ts'
import type { Outlet } from './outlet.ts'
import type { Positions } from './positions.ts'
import { publishFailure, publishRefresh } from './publish-refresh.ts'
import { dueAt, tickAt } from './schedule.ts'

/** What the feeds of a process share. */
export interface FeedRoom {
  outlet: Outlet
  positions: Positions
  meter: Meter
  rates(): RateTable
  /** The wall clock; only the schedule asks it. */
  clock(): number
  /** Aborts when no new refresh may begin. */
  stopping: AbortSignal
  /** Aborts when a refresh that is being published must end at the next record's boundary. */
  cut: AbortSignal
}

/** Runs a feed until the process stops; rejects when the log is lost. */
export async function runFeed(feed: OpenFeed, room: FeedRoom): Promise<void> {
  const published = room.positions.of(feed)
  let last = published === undefined ? Number.NEGATIVE_INFINITY : tickAt(feed, published)
  while (!room.stopping.aborted) {
    const now = room.clock()
    const tick = tickAt(feed, now)
    if (tick > last) {
      last = tick
      await pollOnce(feed, room, dueAt(feed, tick), now)
    }
    const waitMs = dueAt(feed, Math.max(last, tickAt(feed, room.clock())) + 1) - room.clock()
    await delay(Math.max(1, waitMs), undefined, { signal: room.stopping }).catch(() => undefined)
  }
}

async function pollOnce(feed: OpenFeed, room: FeedRoom, at: number, now: number): Promise<void> {
  const { outlet, positions, meter, stopping, cut } = room
  const rates = room.rates()
  let startedAt = performance.now()
  const due = { at, now, after: positions.of(feed), rates, signal: stopping }
  for await (const polled of feed.connector.poll(due)) {
    const published =
      polled.kind === 'failed'
        ? await publishFailure(outlet, feed, polled)
        : await publishRefresh(outlet, feed, polled, rates, cut)
    meter.refresh(feed, published, performance.now() - startedAt)
    startedAt = performance.now()
    if (published.result === 'completed') await positions.advance(feed, polled.observedAt)
    if (published.result === 'cut' || stopping.aborted) return
  }
}
