/** By brute force, from DECISIONS.md, "Provider health": every answer goes through all verdicts of a provider from the first on. */
import type { Side } from '#schemas/events/book-changed.ts'
import type { RefreshJudged } from '#schemas/events/refresh-judged.ts'
import { MINUTE_MS } from '#schemas/values/instant.ts'
import type { SideHealth, StoredHealth } from '#streams/provider-health/table.ts'

/** Each provider's health after verdicts in the order of the log. */
export function modelHealth(log: readonly RefreshJudged[]): Record<string, StoredHealth> {
  const byProvider = Map.groupBy(log, ({ provider }) => provider)
  return Object.fromEntries([...byProvider].map(([provider, verdicts]) => [provider, healthOf(verdicts)]))
}

/**
 * Whether a provider is down at a time: no refresh has completed within three of its intervals, at least a quarter of an hour,
 * or the last three failed. Asks show when a refresh completed, bids where there are no asks.
 */
export function modelIsDown(verdicts: readonly RefreshJudged[], intervalMs: number, now: number): boolean {
  const deciding = verdicts.filter(({ side }) => side === decidingSide(verdicts))
  const patienceMs = intervalMs < 5 * MINUTE_MS ? 15 * MINUTE_MS : intervalMs + intervalMs + intervalMs
  const completedInTime = deciding.some(one => one.verdict === 'applied' && now <= one.observed_at + patienceMs)
  return !completedInTime || (['ask', 'bid'] as const).some(side => failedInARow(verdicts, side) > 2)
}

const decidingSide = (verdicts: readonly RefreshJudged[]): Side =>
  verdicts.some(({ side }) => side === 'ask') ? 'ask' : 'bid'

function healthOf(verdicts: readonly RefreshJudged[]): StoredHealth {
  const deciding = decidingSide(verdicts)
  const last = verdicts.findLast(({ side }) => side === deciding)
  if (last === undefined) throw new Error('a provider without a verdict')
  const sides: StoredHealth['sides'] = {}
  for (const side of ['ask', 'bid'] as const) {
    if (verdicts.some(one => one.side === side)) sides[side] = sideOf(verdicts, side)
  }
  const both = Object.values(sides)
  return {
    last_completed_at: sides[deciding]?.completed_at ?? null,
    last_checked_at: Math.max(...verdicts.map(({ observed_at }) => observed_at)),
    consecutive_failures: Math.max(...both.map(({ failures }) => failures)),
    total_offers: last.total_offers,
    unique_items: last.unique_items,
    total_value: last.total_value,
    total_value_usd: last.total_value_usd,
    currency: last.currency,
    quarantined_reason: both.map(one => one.quarantined_reason).find(reason => reason !== null) ?? null,
    sides,
  }
}

function sideOf(verdicts: readonly RefreshJudged[], side: Side): SideHealth {
  const own = verdicts.filter(one => one.side === side)
  const applied = own.filter(({ verdict }) => verdict === 'applied')
  const held = sinceApplied(verdicts, side).findLast(({ verdict }) => verdict === 'quarantined')
  return {
    completed_at: applied.length === 0 ? null : Math.max(...applied.map(({ observed_at }) => observed_at)),
    failures: failedInARow(verdicts, side),
    quarantined_reason: held === undefined ? null : (held.reason ?? 'quarantined'),
  }
}

/** The verdicts of a side after the last refresh that was applied. */
function sinceApplied(verdicts: readonly RefreshJudged[], side: Side): RefreshJudged[] {
  const own = verdicts.filter(one => one.side === side)
  return own.slice(own.findLastIndex(({ verdict }) => verdict === 'applied') + 1)
}

const failedInARow = (verdicts: readonly RefreshJudged[], side: Side): number =>
  sinceApplied(verdicts, side).filter(({ verdict }) => verdict === 'failed' || verdict === 'incomplete').length
