/**
 * When feeds are due: a fixed grid per feed, offset and jittered by its own name.
 *
 * Pure: no clock. Invariant: the nth due time of a feed is the same in every process and after every
 * restart, lies in the nth interval since the epoch, and different feeds of one interval spread over
 * it, so that providers are not all asked at once.
 */
import { createHash } from 'node:crypto'
import { DAY_MS } from '#schemas/values/instant.ts'
import type { Feed } from './connector.ts'

type Scheduled = Pick<Feed, 'provider' | 'side' | 'intervalMs'>

/** Share of the interval that the jitter of single ticks takes; the feed's offset has the rest. */
const JITTER_SHARE = 0.1

/** The time at which a feed is due for the nth time since the epoch. */
export function dueAt(feed: Scheduled, tick: number): number {
  const { intervalMs } = feed
  const jitterMs = Math.floor(intervalMs * JITTER_SHARE)
  const offset = Math.floor(fraction(`${feed.side}|${feed.provider}`) * (intervalMs - jitterMs))
  const jitter = Math.floor(fraction(`${feed.side}|${feed.provider}|${tick}`) * jitterMs)
  return tick * intervalMs + offset + jitter
}

/** The last tick of a feed that was due at a time or before it. */
export function tickAt(feed: Scheduled, time: number): number {
  const tick = Math.floor(time / feed.intervalMs)
  return dueAt(feed, tick) <= time ? tick : tick - 1
}

/** One refresh of the history that is published before a market goes live. */
export interface PastRefresh<F> {
  feed: F
  at: number
  /** The time of the refresh before it. */
  after: number
}

/**
 * Plans a backfill: the refreshes of all feeds in the days before `now`, in global time order.
 *
 * What the log holds already (`published`: the time of a feed's last refresh) is left out. Each feed
 * has a fixed offset on a daily grid, so a second plan repeats the times of the first.
 */
export function planBackfill<F extends Scheduled>(
  feeds: readonly F[],
  options: { days: number; refreshesPerDay: number; now: number; published(feed: F): number | undefined },
): PastRefresh<F>[] {
  const step = Math.round(DAY_MS / options.refreshesPerDay)
  const start = options.now - options.days * DAY_MS
  const plan = feeds.flatMap(feed => {
    const offset = Math.floor(fraction(`${feed.side}|${feed.provider}`) * step)
    const from = Math.max(start, options.published(feed) ?? start)
    const times: PastRefresh<F>[] = []
    for (let at = Math.ceil((start - offset) / step) * step + offset; at < options.now; at += step) {
      if (at > from) times.push({ feed, at, after: Math.max(at - step, from) })
    }
    return times
  })
  return plan.sort((a, b) => a.at - b.at)
}

function fraction(text: string): number {
  return createHash('md5').update(text).digest().readUInt32LE(0) / 2 ** 32
}
