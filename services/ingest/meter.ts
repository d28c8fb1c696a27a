/**
 * What ingest reports: counters per provider and side, and a log line for every failure.
 *
 * Writes metrics and the log. Labels are providers, sides, results and reason codes, all of which are bounded; a refresh
 * with rejected entries gives one line, however many they are.
 */
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import type { Feed } from './connector.ts'
import type { Published } from './publish-refresh.ts'

export interface Meter {
  refresh(feed: Pick<Feed, 'provider' | 'side'>, published: Published, durationMs: number): void
}

export function openMeter(metrics: Metrics, log: Log): Meter {
  const refreshes = metrics.counter('marketlog_ingest_refreshes_total', 'Refreshes by result.', [
    'provider',
    'side',
    'result',
  ])
  const observations = metrics.counter('marketlog_ingest_observations_total', 'Published observations and sales.', [
    'provider',
    'side',
  ])
  const rejected = metrics.counter('marketlog_ingest_rejected_total', 'Rejected entries by reason.', [
    'provider',
    'side',
    'reason',
  ])
  const seconds = metrics.histogram(
    'marketlog_ingest_refresh_seconds',
    'Time from due to acknowledged.',
    ['provider', 'side'],
    [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120],
  )
  return {
    refresh({ provider, side }, published, durationMs) {
      const labels = { provider, side }
      refreshes.inc({ ...labels, result: published.result })
      seconds.observe(labels, durationMs / 1_000)
      if (published.result === 'failed') {
        log.warn({ ...labels, reason: published.reason, detail: published.detail }, 'refresh failed')
      } else if (published.result === 'completed') {
        observations.inc(labels, published.observed)
        for (const [reason, count] of published.rejected) rejected.inc({ ...labels, reason }, count)
        if (published.rejected.size > 0) {
          log.warn({ ...labels, rejected: Object.fromEntries(published.rejected) }, 'entries rejected')
        }
      }
    },
  }
}
