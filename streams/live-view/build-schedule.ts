/**
 * Decides when a partition's snapshot is built: soon after it has gone quiet, and never too often.
 *
 * Owns one timer. A build waits until nothing was touched for a moment, since builds and a backlog want the same CPU,
 * but not for ever; between two builds of a partition lies a second, and one build at a time runs in
 * this process. Invariant: what was touched is followed by the end of a build that began later, or by a stop.
 */
import type PQueue from 'p-queue'

export interface BuildSchedule {
  due(): void
  /** Stops for good; resolves when a build that runs has ended. */
  stop(): Promise<void>
}

/** How soon and how often, in milliseconds. */
export interface BuildPace {
  /** A build waits until nothing was touched for so long… */
  quietMs: number
  /** …but not for longer than this. */
  longestWaitMs: number
  /** From the begin of a build to that of the next one of its partition. */
  betweenMs: number
}

/** Soon enough for readers of a snapshot after a refresh, and seldom enough for a backlog. */
export const BUILD_PACE: BuildPace = { quietMs: 200, longestWaitMs: 5_000, betweenMs: 1_000 }

export function openBuildSchedule(
  { builds, pace }: { builds: PQueue; pace: BuildPace },
  build: () => Promise<boolean>,
): BuildSchedule {
  let timer: NodeJS.Timeout | undefined
  let dueSince: number | undefined
  let startedAt = Number.NEGATIVE_INFINITY
  let running: Promise<void> | undefined
  let isStopped = false

  const run = async (): Promise<void> => {
    if (isStopped) return
    dueSince = undefined
    startedAt = performance.now()
    const isMore = await build()
    if (isMore) dueSince ??= performance.now()
  }
  const start = (): void => {
    running = builds.add(run).finally(() => {
      running = undefined
      if (dueSince !== undefined) arm()
    })
  }
  const arm = (): void => {
    if (isStopped || running !== undefined) return
    const now = performance.now()
    dueSince ??= now
    const at = Math.max(Math.min(now + pace.quietMs, dueSince + pace.longestWaitMs), startedAt + pace.betweenMs)
    clearTimeout(timer)
    timer = setTimeout(start, Math.max(0, at - now))
  }
  return {
    due() {
      dueSince ??= performance.now()
      arm()
    },
    async stop() {
      isStopped = true
      clearTimeout(timer)
      await running
    },
  }
}
