/**
 * Reports the book's verdicts: a counter per provider and side, and a log line for each refresh that was not applied.
 *
 * Writes metrics and the log. Invariant: labels are providers, sides and verdicts, all of which are bounded. A
 * batch that is tried again counts again: the topic market.refreshes has each verdict once.
 */
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import type { RefreshJudged } from '#schemas/events/refresh-judged.ts'

/** Takes note of a verdict. */
export type NoteVerdict = (judged: RefreshJudged) => void

/** Opens the meter of a process. */
export function openMeter(metrics: Metrics, log: Log): NoteVerdict {
  const refreshes = metrics.counter('marketlog_refreshes_judged_total', 'Refreshes by verdict.', [
    'side',
    'provider',
    'verdict',
  ])
  return ({ side, provider, verdict, reason, refresh_id, unique_items }) => {
    refreshes.inc({ side, provider, verdict })
    if (verdict === 'applied') return
    log.warn({ side, provider, verdict, reason, refresh_id, unique_items }, 'a refresh was not applied')
  }
}
