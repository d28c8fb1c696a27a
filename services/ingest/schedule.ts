/**
 * When sources are due: a fixed grid per source, offset and jittered by its own name.
 *
 * Invariant: the nth due time of a source is the same in every process and after every restart, lies in the nth interval since
 * the epoch, and different sources of one interval spread over it, so that providers are not all asked at once.
 */
import { createHash } from 'node:crypto'
import { DAY_MS } from '#schemas/values/instant.ts'
import type { SourceSettings } from './source.ts'

type Scheduled = Pick<SourceSettings, 'provider' | 'side' | 'intervalMs'>

/** Share of the interval that the jitter of single ticks takes; the source's offset has the rest. */
const JITTER_SHARE = 0.1

/** The time at which a source is due for the nth time since the epoch. */
export function dueAt(source: Scheduled, tick: number): number {
  const { intervalMs } = source
  const jitterMs = Math.floor(intervalMs * JITTER_SHARE)
  const offset = Math.floor(fraction(`${source.side}|${source.provider}`) * (intervalMs - jitterMs))
  const jitter = Math.floor(fraction(`${source.side}|${source.provider}|${tick}`) * jitterMs)
  return tick * intervalMs + offset + jitter
}

/** The last tick of a source that was due at a time or before it. */
export function tickAt(source: Scheduled, time: number): number {
  const tick = Math.floor(time / source.intervalMs)
  return dueAt(source, tick) <= time ? tick : tick - 1
}

/**
 * The refreshes of a source in the days before `now`, oldest first, each with the time of the one before it; those up to `published`,
 * the time of its last one, are left out. A source has a fixed offset on a daily grid, so a second plan repeats the times of the first.
 */
export function pastRefreshes(
  source: Scheduled,
  options: { days: number; refreshes_per_day: number; now: number; published: number | undefined },
): { at: number; after: number }[] {
  const step = Math.round(DAY_MS / options.refreshes_per_day)
  const start = options.now - options.days * DAY_MS
  const offset = Math.floor(fraction(`${source.side}|${source.provider}`) * step)
  const from = Math.max(start, options.published ?? start)
  const refreshes: { at: number; after: number }[] = []
  for (let at = Math.ceil((start - offset) / step) * step + offset; at < options.now; at += step) {
    if (at > from) refreshes.push({ at, after: Math.max(at - step, from) })
  }
  return refreshes
}

function fraction(text: string): number {
  return createHash('md5').update(text).digest().readUInt32LE(0) / 2 ** 32
}
