/**
 * The book's decision on one record of market.quotes or market.bids.
 *
 * State, record and lookups are arguments, time is in the record. Observations are staged without effects;
 * RefreshCompleted judges the refresh whole and returns its changes, marker and verdict. A refresh keeps the catalog version
 * with which it began. An event's time is accepted up to a little after its record's append time, a part of the log as well.
 * Invariant: an unfinished refresh withdraws nothing, and `replayOpenRefresh`, which reads a stretch of the input
 * again whose effects are written, changes nothing but what is staged.
 */
import type { BookChanged, RefreshMarked, Side } from '#schemas/events/book-changed.ts'
import type { Observation, ObservationRejected, RefreshCompleted, RefreshFailed } from '#schemas/events/observation.ts'
import type { RefreshJudged, RefreshQuarantined, Verdict } from '#schemas/events/refresh-judged.ts'
import type { CatalogLookup } from '#schemas/values/catalog-item.ts'
import { isFromTheFuture, timeFault } from '#schemas/values/event-time.ts'
import { parseRate, type Rate } from '#schemas/values/money.ts'
import { OK, type Outcome } from '#streams/runner/outcome.ts'
import { applyPushed, applyRefresh, type ChangeSource, type RowChanges } from './apply.ts'
import { judge } from './judge.ts'
import { dropStaged, emptyBook, type OpenRefresh, type ProviderBook, stage, totalsOf } from './provider-book.ts'

/** All providers of one input partition. */
export type Books = Map<string, ProviderBook>

export interface Effects extends RowChanges {
  marked: RefreshMarked | undefined
  judged: RefreshJudged | undefined
  quarantined: Omit<RefreshQuarantined, 'source_topic'> | undefined
}

const NO_EFFECTS: Effects = {
  changes: [],
  urlChanges: [],
  marked: undefined,
  judged: undefined,
  quarantined: undefined,
}

interface Decision {
  outcome: Outcome
  effects: Effects
}

const only = (outcome: Outcome): Decision => ({ outcome, effects: NO_EFFECTS })

const STAGED = only(OK)
/** It belongs to a refresh whose first record is missing, or that another has replaced. */
const NOT_OPEN: Outcome = { kind: 'skip', reason: 'no_refresh_open' }

/** Largest price taken, in hundredths: beyond it no market item is believable in any currency. */
const LARGEST_PRICE = 10 ** 13
const LARGEST_QUANTITY = 2 ** 31 - 1

export function step(
  books: Books,
  side: Side,
  source: ChangeSource,
  event: string,
  value: unknown,
  catalog: CatalogLookup,
): Decision {
  const book = bookOf(books, side, (value as { provider: string }).provider)
  switch (event) {
    case 'AskObserved':
    case 'BidObserved':
      return observe(book, value as Observation, source, catalog)
    case 'ObservationRejected':
      return only(reject(book, value as ObservationRejected, source, catalog))
    case 'RefreshCompleted':
      forgetOverdue(books, source)
      return complete(book, value as RefreshCompleted, source, catalog)
    case 'RefreshFailed':
      return fail(book, value as RefreshFailed, source)
    default:
      return only({ kind: 'skip', reason: 'other_event' })
  }
}

/**
 * Takes a record again whose effects are in the books already: only the refreshes under way are staged
 * again. Judging or pushing a second time would be against a book that has changed since.
 */
export function replayOpenRefresh(
  books: Books,
  side: Side,
  source: ChangeSource,
  event: string,
  value: unknown,
  catalog: CatalogLookup,
): void {
  const { provider, refresh_id } = value as { provider: string; refresh_id?: string | null }
  if (event === 'RefreshCompleted') forgetOverdue(books, source)
  const book = bookOf(books, side, provider)
  if (event === 'RefreshCompleted') {
    if (!isLate(book, value as RefreshCompleted)) dropStaged(book)
  } else if (event === 'RefreshFailed') dropStaged(book)
  else if (refresh_id !== null) step(books, side, source, event, value, catalog)
}

/** The oldest input offset that an open refresh still needs. */
export function openFrom(books: Books): number | undefined {
  let from: number | undefined
  for (const { open } of books.values()) {
    if (open && (from === undefined || open.firstOffset < from)) from = open.firstOffset
  }
  return from
}

/**
 * Records that a restart may have to read again: two seconds' worth. A refresh that was cut for good would
 * otherwise hold the offset from which every restart reads, until the log no longer goes back so far.
 */
const OPEN_FOR_RECORDS = 1_000_000

function forgetOverdue(books: Books, { offset }: ChangeSource): void {
  for (const book of books.values()) {
    if (book.open && offset - book.open.firstOffset > OPEN_FOR_RECORDS) dropStaged(book)
  }
}

/** A provider's side of the book, created when first met. */
export function bookOf(books: Books, side: Side, provider: string): ProviderBook {
  const found = books.get(provider)
  if (found) return found
  const created = emptyBook(provider, side)
  books.set(provider, created)
  return created
}

function observe(book: ProviderBook, seen: Observation, source: ChangeSource, catalog: CatalogLookup): Decision {
  if (seen.refresh_id === null) return push(book, seen, source, catalog)
  const open = openRefresh(book, seen.refresh_id, seen, source, catalog)
  if (open === undefined) return only(NOT_OPEN)
  const fault = faultOf(seen, open.currency)
  if (fault) {
    open.rejected += 1
    return only(fault)
  }
  const itemId = open.catalog.idOf(seen.market_hash_name, seen.phase)
  if (itemId === undefined) {
    open.unresolved += 1
    return only(unresolved(seen))
  }
  stage(book, open, itemId, { price: seen.price ?? 0, quantity: seen.quantity, url: seen.url })
  return STAGED
}

/**
 * The refresh that an entry belongs to. Index 0 opens one, a second attempt at the same included;
 * any other index must follow the one before.
 */
function openRefresh(
  book: ProviderBook,
  refreshId: string,
  entry: { index: number; observed_at: number; currency?: string },
  source: ChangeSource,
  catalog: CatalogLookup,
): OpenRefresh | undefined {
  if (entry.index === 0) {
    dropStaged(book)
    book.open = {
      id: refreshId,
      observedAt: entry.observed_at,
      currency: entry.currency ?? '',
      catalog,
      firstOffset: source.offset,
      nextIndex: 1,
      hasGap: false,
      unresolved: 0,
      rejected: 0,
      items: 0,
      urls: new Map(),
    }
    return book.open
  }
  const { open } = book
  if (open?.id !== refreshId) return undefined
  if (open.currency === '') open.currency = entry.currency ?? ''
  if (entry.index !== open.nextIndex) open.hasGap = true
  open.nextIndex += 1
  return open
}

function faultOf(seen: Observation, currency: string): Outcome | undefined {
  const { price, quantity } = seen
  if (price === null || !(price > 0) || price > LARGEST_PRICE) {
    return { kind: 'deadLetter', reason: 'price_out_of_range', detail: `price ${price}` }
  }
  if (!(quantity > 0) || quantity > LARGEST_QUANTITY) {
    return { kind: 'deadLetter', reason: 'quantity_out_of_range', detail: `quantity ${quantity}` }
  }
  if (seen.currency !== currency) {
    return { kind: 'deadLetter', reason: 'currency_mismatch', detail: `${seen.currency} in a refresh in ${currency}` }
  }
  return undefined
}

const unresolved = (seen: Observation): Outcome => ({
  kind: 'unresolved',
  name: seen.market_hash_name,
  phase: seen.phase,
  provider: seen.provider,
  observedAt: seen.observed_at,
})

function reject(book: ProviderBook, entry: ObservationRejected, source: ChangeSource, catalog: CatalogLookup): Outcome {
  if (entry.refresh_id !== null) {
    const open = openRefresh(book, entry.refresh_id, entry, source, catalog)
    if (open === undefined) return NOT_OPEN
    open.rejected += 1
  }
  return { kind: 'deadLetter', reason: entry.reason, detail: entry.raw.slice(0, 200) }
}

function push(book: ProviderBook, seen: Observation, source: ChangeSource, catalog: CatalogLookup): Decision {
  const isWithdrawal = seen.price === null
  const early = timeFault(seen.observed_at, source.appendedAt)
  if (early) return only({ kind: 'deadLetter', ...early })
  const currency = book.listed > 0 ? book.currency : seen.currency
  const rate = rateOf(book, seen.usd_rate ?? '')
  const fault = isWithdrawal ? undefined : faultOf(seen, currency)
  if (fault) return only(fault)
  if (rate === undefined) return only({ kind: 'deadLetter', reason: 'unusable_rate', detail: `${seen.usd_rate}` })
  const itemId = catalog.idOf(seen.market_hash_name, seen.phase)
  if (itemId === undefined) return only(unresolved(seen))
  // What a refresh withdrew has no row with its age, but is as old as the refresh at least.
  const knownAt = Math.max(book.seenAt[itemId] ?? 0, book.lastObservedAt)
  const isOutdated = seen.observed_at < knownAt && !isFromTheFuture(knownAt, source.appendedAt)
  if (isOutdated) return only({ kind: 'skip', reason: 'stale' })
  const row = { itemId, price: seen.price ?? 0, quantity: seen.quantity, url: seen.url }
  const occasion = { currency, rate, seenAt: seen.observed_at, source }
  const changed = unlessTooLarge(() => applyPushed(book, row, occasion))
  if (changed === TOO_LARGE) {
    return only({ kind: 'deadLetter', reason: TOO_LARGE, detail: `${seen.price} ${currency}` })
  }
  return { outcome: OK, effects: { ...NO_EFFECTS, ...changed } }
}

/** Whether it completes a refresh that another has replaced, as a former owner of the feed may; the open one is not affected. */
const isLate = ({ open }: ProviderBook, { refresh_id, count }: RefreshCompleted): boolean =>
  open !== undefined && open.id !== refresh_id && count > 0

function complete(
  book: ProviderBook,
  completed: RefreshCompleted,
  source: ChangeSource,
  catalog: CatalogLookup,
): Decision {
  if (isLate(book, completed)) return only(NOT_OPEN)
  // A refresh without entries begins here, and ends what began before it like any other.
  if (completed.count === 0) dropStaged(book)
  const rate = rateOf(book, completed.usd_rate)
  const firstOffset = book.open?.firstOffset ?? source.offset
  const seen = seenIn(book, completed, catalog)
  const { verdict, reason, comparison, suspicion } = judge(book, completed, rate, source.appendedAt)
  const applied =
    verdict === 'applied' && rate ? unlessTooLarge(() => applyRefresh(book, completed, rate, source)) : undefined
  const about = { side: book.side, provider: book.provider, refresh_id: completed.refresh_id }
  const place = { source_partition: source.partition, source_offset: source.offset }
  if (applied !== undefined && applied !== TOO_LARGE) {
    remember(book, completed, null)
    const { observed_at: last_updated } = completed
    const marked = { ...about, ...place, last_updated, catalog_version: seen.catalog_version }
    const judged = verdictOf(book, completed, 'applied', reason, applied.changes, seen)
    return { outcome: OK, effects: { ...NO_EFFECTS, ...applied, marked, judged } }
  }
  dropStaged(book)
  if (applied === TOO_LARGE) return failed(verdictOf(book, completed, 'failed', TOO_LARGE, [], seen))
  const judged = verdictOf(book, believed(completed, source), verdict, reason, [], seen)
  if (verdict !== 'quarantined') return failed(judged)
  remember(book, completed, suspicion)
  const quarantined = {
    ...about,
    observed_at: completed.observed_at,
    reason: reason ?? '',
    items_before: comparison.before,
    items_now: comparison.now,
    moved: comparison.moved,
    compared: comparison.shared,
    source_partition: source.partition,
    first_offset: firstOffset,
    last_offset: source.offset,
  }
  return { outcome: OK, effects: { ...NO_EFFECTS, judged, quarantined } }
}

const failed = (judged: RefreshJudged): Decision => ({ outcome: OK, effects: { ...NO_EFFECTS, judged } })

/** The outcome of a refresh's names, and the version of the catalog that decided it. */
type SeenNames = Pick<RefreshJudged, 'unresolved' | 'rejected' | 'catalog_version'>

const NOTHING_SEEN: SeenNames = { unresolved: 0, rejected: 0, catalog_version: null }

function seenIn({ open }: ProviderBook, { count }: RefreshCompleted, catalog: CatalogLookup): SeenNames {
  if (open) return { unresolved: open.unresolved, rejected: open.rejected, catalog_version: open.catalog.version }
  return count === 0 ? { ...NOTHING_SEEN, catalog_version: catalog.version } : NOTHING_SEEN
}

const TOO_LARGE = 'amount_too_large'

/** Micro-dollars beyond 2^53 are a fault of the record that brings them, not of the book. */
function unlessTooLarge<T>(apply: () => T): T | typeof TOO_LARGE {
  try {
    return apply()
  } catch (error) {
    if (error instanceof RangeError) return TOO_LARGE
    throw error
  }
}

function remember(book: ProviderBook, completed: RefreshCompleted, suspicion: ProviderBook['suspicion']): void {
  book.lastRefreshId = completed.refresh_id
  book.lastObservedAt = completed.observed_at
  book.suspicion = suspicion
  if (suspicion === null) book.lastAppliedAt = completed.observed_at
}

/** A time of the future becomes the append time: a verdict's time is when a provider was last checked. */
function believed(
  { refresh_id, observed_at }: { refresh_id: string | null; observed_at: number },
  { appendedAt }: ChangeSource,
): { refresh_id: string | null; observed_at: number } {
  return { refresh_id, observed_at: isFromTheFuture(observed_at, appendedAt) ? appendedAt : observed_at }
}

function fail(book: ProviderBook, { observed_at, reason }: RefreshFailed, source: ChangeSource): Decision {
  dropStaged(book)
  return failed(
    verdictOf(book, believed({ refresh_id: null, observed_at }, source), 'failed', reason, [], NOTHING_SEEN),
  )
}

function verdictOf(
  book: ProviderBook,
  about: { refresh_id: string | null; observed_at: number },
  verdict: Verdict,
  reason: string | null,
  changes: readonly BookChanged[],
  seen: SeenNames,
): RefreshJudged {
  const totals = totalsOf(book)
  const count = (kind: BookChanged['change']): number => changes.filter(changed => changed.change === kind).length
  return {
    side: book.side,
    provider: book.provider,
    refresh_id: about.refresh_id,
    observed_at: about.observed_at,
    verdict,
    reason,
    added: count('added'),
    updated: count('updated'),
    removed: count('removed'),
    ...seen,
    unique_items: totals.items,
    total_offers: totals.offers,
    total_value: totals.value,
    currency: book.currency,
    total_value_usd: totals.valueUsd,
  }
}

/** A provider's rates repeat from observation to observation; parsing one costs as much as ten lookups. */
function rateOf(book: ProviderBook, text: string): Rate | undefined {
  if (text === book.rateText) return book.rate
  book.rateText = text
  book.rate = parseRate(text)
  return book.rate
}
