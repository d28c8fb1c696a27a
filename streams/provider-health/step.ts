/**
 * Folds the verdicts on a provider's refreshes into its health.
 *
 * Time is in the verdicts. Asks decide the totals and the last completion, failures of either
 * side count. A quarantined refresh completes nothing and is no failure; a stale one only shows that the provider was
 * checked. Invariant: the fold of a log is the same, in bytes, however it is cut and however its sides interleave.
 */
import type { RefreshJudged } from '#schemas/events/refresh-judged.ts'
import type { SideHealth, StoredHealth } from './table.ts'

const UNKNOWN: SideHealth = { completed_at: null, failures: 0, quarantined_reason: null }

/** The health of a provider after a verdict. */
export function step(before: StoredHealth | undefined, judged: RefreshJudged): StoredHealth {
  const side = sideAfter(before?.sides[judged.side] ?? UNKNOWN, judged)
  const { ask, bid }: StoredHealth['sides'] = { ...before?.sides, [judged.side]: side }
  const decides = judged.side === 'ask' || ask === undefined
  const { total_offers, unique_items, total_value, total_value_usd, currency } =
    decides || before === undefined ? judged : before
  return {
    last_completed_at: (ask ?? bid ?? UNKNOWN).completed_at,
    last_checked_at: Math.max(before?.last_checked_at ?? 0, judged.observed_at),
    consecutive_failures: Math.max(ask?.failures ?? 0, bid?.failures ?? 0),
    total_offers,
    unique_items,
    total_value,
    total_value_usd,
    currency,
    quarantined_reason: ask?.quarantined_reason ?? bid?.quarantined_reason ?? null,
    // In one order, whichever side was judged first: what is stored is compared in bytes.
    sides: { ...(ask && { ask }), ...(bid && { bid }) },
  }
}

function sideAfter(before: SideHealth, { verdict, reason, observed_at }: RefreshJudged): SideHealth {
  switch (verdict) {
    case 'applied':
      return { completed_at: Math.max(before.completed_at ?? 0, observed_at), failures: 0, quarantined_reason: null }
    case 'quarantined':
      return { ...before, quarantined_reason: reason ?? 'quarantined' }
    case 'failed':
    case 'incomplete':
      return { ...before, failures: before.failures + 1 }
    case 'stale':
      return before
  }
}
