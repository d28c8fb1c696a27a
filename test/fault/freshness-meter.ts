/**
 * How long values take until each path shows them, the one that is on its way included.
 *
 * States of a value: published -> acknowledged -> seen by every watched path. The clock is an argument. A path that
 * stops shows as the age of the value that it does not show, and as too few values.
 */

/** A way by which a value reaches a client. */
export type FreshPath = 'restMs' | 'feedMs'

/** The longest times from the log's acknowledgement until a value was there, or until now, in milliseconds. */
export interface Freshness extends Record<FreshPath, number> {
  /** Those that all watched paths have shown. */
  values: number
}

/** Measures one value after the other. */
export interface FreshnessMeter {
  /** A value is being sent; its age counts from here until the log has it. */
  published(): void
  /** The log has the value; its age counts from here. */
  acknowledged(): void
  isAwaited(path: FreshPath): boolean
  seen(path: FreshPath): void
  /** Which paths are waited for from now on. */
  watch(paths: readonly FreshPath[]): void
  /** No value comes any more, for a reason that every later question throws. */
  fail(error: unknown): void
  taken(least: number): Freshness
  discard(): void
}

const PATHS: readonly FreshPath[] = ['restMs', 'feedMs']

/** Opens a meter; `now` in milliseconds. */
export function openFreshnessMeter(now: () => number): FreshnessMeter {
  let watched = new Set(PATHS)
  let measured: Freshness = { values: 0, restMs: 0, feedMs: 0 }
  let since = 0
  const awaited = new Set<FreshPath>()
  let failure: { error: unknown } | undefined
  const noteAge = (path: FreshPath): void => {
    measured[path] = Math.max(measured[path], now() - since)
  }
  const discard = (): void => {
    measured = { values: 0, restMs: 0, feedMs: 0 }
  }
  return {
    published() {
      since = now()
      for (const path of watched) awaited.add(path)
    },
    acknowledged() {
      since = now()
    },
    isAwaited: path => awaited.has(path),
    seen(path) {
      if (!awaited.delete(path)) return
      noteAge(path)
      if (awaited.size === 0) measured.values += 1
    },
    watch(paths) {
      watched = new Set(paths)
      for (const path of PATHS) if (!watched.has(path)) awaited.delete(path)
    },
    fail(error) {
      failure ??= { error }
    },
    taken(least) {
      if (failure) throw failure.error
      for (const path of awaited) noteAge(path)
      const taken = measured
      discard()
      if (taken.values >= least) return taken
      throw new Error(`${describeFreshness(taken)}, where ${least} were to come`)
    },
    discard,
  }
}

/** `12 values, 0.1 s to REST and 0.2 s to the feed at most` */
export const describeFreshness = ({ values, restMs, feedMs }: Freshness): string =>
  `${values} values, ${(restMs / 1000).toFixed(1)} s to REST and ${(feedMs / 1000).toFixed(1)} s to the feed at most`
