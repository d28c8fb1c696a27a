/**
 * A scripted refresh as records of the log, and as the reference fold takes it.
 *
 * Both hold the same entries: what is lost or rejected on its way is so in both.
 */
import type { Codec } from '#infra/kafka/codec.ts'
import type { Outgoing } from '#infra/kafka/publisher.ts'
import {
  askObserved,
  bidObserved,
  observationRejected,
  refreshCompleted,
  refreshFailed,
} from '#schemas/events/observation.ts'
import { urlOf } from '#test/fixtures/small-market.ts'
import type { LedgerEntry } from '#test/harness/ledger.ts'
import { bookKey, type Expected, type GivenRefresh } from '#test/harness/reference-fold.ts'
import type { ScriptedEntry, ScriptedRefresh } from './scripted-market.ts'

/** Which entries of a refresh reach the log. */
function arriving({ entries, ending }: ScriptedRefresh): { entry: ScriptedEntry; index: number }[] {
  const lost = ending === 'lossy' ? Math.floor(entries.length / 2) : undefined
  return entries.map((entry, index) => ({ entry, index })).filter(({ index }) => index !== lost)
}

/** The records of a refresh, in order. */
export function recordsOf(refresh: ScriptedRefresh, codec: Codec): Outgoing[] {
  const { side, provider, refreshId: refresh_id, observedAt: observed_at, currency, usdRate, ending } = refresh
  const topic = side === 'ask' ? 'quotes' : 'bids'
  const observed = side === 'ask' ? askObserved : bidObserved
  const common = { provider, refresh_id, observed_at }
  const record = (value: Buffer): Outgoing => ({ topic, key: provider, value })
  const records = arriving(refresh).map(({ entry, index }) => {
    const { name: market_hash_name, itemId, price, quantity } = entry
    if (entry.isRejected) {
      const raw = JSON.stringify(market_hash_name)
      return record(
        codec.encode(observationRejected, { ...common, index, market_hash_name, raw, reason: 'price_not_number' }),
      )
    }
    const offer = { market_hash_name, phase: null, price, currency: entry.currency, quantity }
    const url = urlOf(provider, itemId)
    return record(codec.encode(observed, { ...common, index, ...offer, usd_rate: null, url }))
  })
  if (ending === 'failed') {
    records.push(record(codec.encode(refreshFailed, { provider, observed_at, reason: 'timeout', detail: 'cut' })))
  } else if (ending !== 'cut') {
    const count = refresh.entries.length
    records.push(record(codec.encode(refreshCompleted, { ...common, count, currency, usd_rate: usdRate })))
  }
  return records
}

/** Whether an entry says something that the book takes. */
const isUsable = (entry: ScriptedEntry, { currency }: ScriptedRefresh): boolean =>
  !entry.isRejected && entry.price > 0 && entry.currency === currency

/** A refresh as the reference fold takes it. */
export function givenOf(refresh: ScriptedRefresh): GivenRefresh {
  const { side, provider, refreshId, observedAt, appendedAt, currency, usdRate, ending } = refresh
  const entries = arriving(refresh)
    .filter(({ entry }) => isUsable(entry, refresh))
    .map(({ entry: { itemId, price, quantity } }) => ({ itemId, price, quantity }))
  const completed = ending === 'completed'
  return {
    ...{ side, provider, refreshId, observedAt, currency, usdRate, entries, completed },
    ...(appendedAt !== undefined && { appendedAt }),
  }
}

/** The unresolved names and dead letters that the book must write of the refreshes, one entry a record. */
export function rejectsOf(refreshes: readonly ScriptedRefresh[]): {
  unresolved: LedgerEntry[]
  letters: LedgerEntry[]
} {
  const unresolved: LedgerEntry[] = []
  const letters: LedgerEntry[] = []
  for (const refresh of refreshes) {
    const key = bookKey(refresh.side, refresh.provider)
    for (const { entry, index } of arriving(refresh)) {
      const what = `${refresh.refreshId} ${index} ${entry.name}`
      if (!isUsable(entry, refresh)) letters.push({ key, what })
      else if (entry.itemId === undefined) unresolved.push({ key, what: `${refresh.refreshId} ${entry.name}` })
    }
  }
  return { unresolved, letters }
}

/** The verdicts that the refreshes must be given, with what they count. */
export function verdictsOf(refreshes: readonly ScriptedRefresh[], expected: Expected): LedgerEntry[] {
  const counts = new Map<string, { added: number; updated: number; removed: number }>()
  for (const { side, provider, refresh_id, change } of expected.changes) {
    const key = `${bookKey(side, provider)}|${refresh_id}`
    const count = counts.get(key) ?? { added: 0, updated: 0, removed: 0 }
    counts.set(key, count)
    count[change] += 1
  }
  return refreshes.flatMap((refresh, at) => {
    const { side, provider, refreshId, ending } = refresh
    const key = bookKey(side, provider)
    if (ending === 'cut') return []
    if (ending === 'failed') return [{ key, what: `null failed ${refresh.failure ?? 'timeout'} 0 0 0 0 0` }]
    const { verdict, reason } = expected.verdicts[at] ?? { verdict: undefined, reason: undefined }
    const changed = verdict === 'applied' ? counts.get(`${key}|${refreshId}`) : undefined
    const { added = 0, updated = 0, removed = 0 } = changed ?? {}
    const { unresolved, letters } = rejectsOf([refresh])
    const numbers = [added, updated, removed, unresolved.length, letters.length].join(' ')
    return [{ key, what: `${refreshId} ${verdict} ${reason} ${numbers}` }]
  })
}
