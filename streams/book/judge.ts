/**
 * Judges a completed refresh as a whole, before any of its changes is emitted.
 *
 * A refresh that lost more than half of the provider's items has collapsed; one that moved more than half of the
 * prices it shares with the book by over 80 percent is a glitch. Either is quarantined until it is the third such or a later one
 * in a row and was observed at least {@link BELIEVED_AFTER_MS} after the first. What is stale, incomplete or failed does not
 * show what a provider lists, so it neither counts nor ends the row; a refresh that is applied ends it.
 * One that was observed after its append time has failed: it would outdate every correct one that follows.
 */
import type { RefreshCompleted } from '#schemas/events/observation.ts'
import type { Verdict } from '#schemas/events/refresh-judged.ts'
import { FROM_THE_FUTURE, isFromTheFuture } from '#schemas/values/event-time.ts'
import { MINUTE_MS } from '#schemas/values/instant.ts'
import type { Rate } from '#schemas/values/money.ts'
import { isStaged, type OpenRefresh, type ProviderBook, type Suspicion } from './provider-book.ts'

interface Judgement {
  verdict: Verdict
  reason: string | null
  comparison: typeof NOTHING
  /** Remembered of a refresh that is quarantined. */
  suspicion: Suspicion | null
}

const BELIEVED_COUNT = 3
const BELIEVED_AFTER_MS = 30 * MINUTE_MS

/** Items listed before, now and both times, and how many of these have a price that moved by over 80 percent. */
const NOTHING = { before: 0, now: 0, shared: 0, moved: 0 }

export function judge(
  book: ProviderBook,
  completed: RefreshCompleted,
  rate: Rate | undefined,
  appendedAt: number,
): Judgement {
  const refused = refusalOf(book, completed, rate, appendedAt)
  if (refused) return { ...refused, comparison: NOTHING, suspicion: null }
  const open = book.open
  const comparison = compare(book, open, completed.currency, rate?.approximate ?? 1)
  const reason = reasonToDoubt(comparison)
  if (reason === null) return { verdict: 'applied', reason, comparison, suspicion: null }
  const { observed_at } = completed
  const { count, since } = book.suspicion ?? { count: 0, since: observed_at }
  const suspicion = { reason, count: count + 1, since }
  const isBelieved = suspicion.count >= BELIEVED_COUNT && observed_at - since >= BELIEVED_AFTER_MS
  if (isBelieved) return { verdict: 'applied', reason, comparison, suspicion: null }
  return { verdict: 'quarantined', reason, comparison, suspicion }
}

function refusalOf(
  book: ProviderBook,
  completed: RefreshCompleted,
  rate: Rate | undefined,
  appendedAt: number,
): { verdict: Verdict; reason: string } | undefined {
  const { open, lastObservedAt } = book
  if (isFromTheFuture(completed.observed_at, appendedAt)) return { verdict: 'failed', reason: FROM_THE_FUTURE }
  if (completed.observed_at <= lastObservedAt) return { verdict: 'stale', reason: 'not_newer' }
  if (rate === undefined) return { verdict: 'failed', reason: 'unusable_rate' }
  if (open === undefined)
    return completed.count === 0 ? undefined : { verdict: 'incomplete', reason: 'no_observations' }
  if (open.hasGap || open.nextIndex !== completed.count) return { verdict: 'incomplete', reason: 'count_mismatch' }
  if (open.items > 0 && open.currency !== completed.currency) return { verdict: 'failed', reason: 'currency_mismatch' }
  return undefined
}

/** Counts what the refresh would do; prices are compared in US dollars when the currency changed. */
function compare(book: ProviderBook, open: OpenRefresh | undefined, currency: string, rate: number): typeof NOTHING {
  const isSameCurrency = book.currency === currency
  let shared = 0
  let moved = 0
  for (let itemId = 0; itemId < book.price.length; itemId++) {
    const price = book.price[itemId] ?? 0
    if (price <= 0 || !isStaged(book, itemId)) continue
    shared += 1
    const before = isSameCurrency ? price : (book.microUsd[itemId] ?? 0)
    const staged = book.stagedPrice[itemId] ?? 0
    const now = isSameCurrency ? staged : (staged * 10_000) / rate
    if (Math.abs(now - before) > 0.8 * before) moved += 1
  }
  return { before: book.listed, now: open?.items ?? 0, shared, moved }
}

function reasonToDoubt({ before, shared, moved }: typeof NOTHING): string | null {
  if ((before - shared) * 2 > before) return 'collapsed'
  if (moved * 2 > shared) return 'glitch'
  return null
}
