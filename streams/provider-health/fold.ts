/**
 * Folds the verdicts on a provider's refreshes into its health.
 *
 * Time is in the verdicts. Asks decide the totals and the last completion, failures of either
 * side count. A quarantined refresh completes nothing and is no failure; a stale one only shows that the provider was
 * checked. Invariant: the fold of a log is the same, in bytes, however it is cut and however its sides interleave.
 */
import type { KeyWrite } from '#infra/redis/guarded-write.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import type { RefreshJudged } from '#schemas/events/refresh-judged.ts'
import { OK } from '#streams/runner/outcome.ts'
import type { RedisFold } from '#streams/runner/view.ts'
import { encodeHealth, type SideHealth, type StoredHealth } from './table.ts'

const UNKNOWN: SideHealth = { completed_at: null, failures: 0, quarantined_reason: null }

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

export interface HealthFold extends RedisFold {
  readonly health: ReadonlyMap<string, StoredHealth>
  /** Those of another version with a side of which this one has seen no applied refresh: what came before it counts on. */
  lacking(others: ReadonlyMap<string, StoredHealth>): KeyWrite[]
}

export function openHealthFold(key: string, stored: ReadonlyMap<string, StoredHealth>, metrics: Metrics): HealthFold {
  const refreshed = metrics.gauge('marketlog_provider_refreshed_seconds', 'Time of the last applied refresh.', [
    'provider',
    'side',
  ])
  const failures = metrics.gauge('marketlog_provider_failures', 'Refreshes in a row that failed.', ['provider', 'side'])
  const show = (provider: string, { sides }: StoredHealth): void => {
    for (const [side, one] of Object.entries(sides)) {
      if (one.completed_at !== null) refreshed.set({ provider, side }, one.completed_at / 1000)
      failures.set({ provider, side }, one.failures)
    }
  }
  const writes = (rows: Iterable<readonly [string, StoredHealth]>): KeyWrite[] => {
    const args = [...rows].flatMap(([provider, one]) => [provider, encodeHealth(one)])
    return args.length > 0 ? [{ command: 'HSET', key, args }] : []
  }
  const health = new Map(stored)
  for (const [provider, one] of health) show(provider, one)
  let changed = new Map<string, StoredHealth>()
  return {
    health,
    apply({ event, value }) {
      if (event !== 'RefreshJudged') return OK
      const after = step(health.get(value.provider), value)
      health.set(value.provider, after)
      changed.set(value.provider, after)
      show(value.provider, after)
      return OK
    },
    drain() {
      const rows = changed
      changed = new Map()
      return { writes: writes(rows), own: {} }
    },
    lacking(others) {
      const isLacking = ([provider, { sides }]: [string, StoredHealth]): boolean =>
        Object.keys(sides).some(side => health.get(provider)?.sides[side as keyof typeof sides]?.completed_at == null)
      return writes([...others].filter(isLacking))
    },
  }
}
