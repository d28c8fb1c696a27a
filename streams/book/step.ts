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
import type { RefreshJudged, RefreshQuarantined } from '#schemas/events/refresh-judged.ts'
import type { CatalogLookup } from '#schemas/values/catalog-item.ts'
import { isFromTheFuture, timeFault } from '#schemas/values/event-time.ts'
import { parseRate } from '#schemas/values/money.ts'
import { OK, type Outcome, type StreamRecord } from '#streams/runner/outcome.ts'
import { applyPushed, applyRefresh, type ChangeSource, NOTHING, type RowChanges } from './apply.ts'
import { judge } from './judge.ts'
import {
  dropStaged,
  emptyBook,
  newRefresh,
  type OpenRefresh,
  type ProviderBook,
  stage,
  totalsOf,
} from './provider-book.ts'

/** All providers of one input partition. */
export type Books = Map<string, ProviderBook>

interface Decision extends RowChanges {
  outcome: Outcome
  marked?: RefreshMarked
  judged?: RefreshJudged
  quarantined?: Omit<RefreshQuarantined, 'source_topic'>
}

const only = (outcome: Outcome): Decision => ({ outcome, ...NOTHING })

const STAGED = only(OK)

/** It belongs to a refresh whose first record is missing, or that another has replaced. */
const NOT_OPEN: Outcome = { kind: 'skip', reason: 'no_refresh_open' }

/** Largest price taken, in hundredths: beyond it no market item is believable in any currency. */
const LARGEST_PRICE = 10 ** 13
const LARGEST_QUANTITY = 2 ** 31 - 1

type InputRecord = ChangeSource & Pick<StreamRecord, 'event' | 'value'>

export function step(books: Books, side: Side, record: InputRecord, catalog: CatalogLookup): Decision {
  const { event, value } = record
  const book = bookOf(books, side, value.provider)
  switch (event) {
    case 'AskObserved':
    case 'BidObserved':
      return observe(book, value, record, catalog)
    case 'ObservationRejected':
      return only(reject(book, value, record, catalog))
    case 'RefreshCompleted':
      forgetOverdue(books, record)
      return complete(book, value, record, catalog)
    case 'RefreshFailed':
      return fail(book, value, record)
    default:
      return only({ kind: 'skip', reason: 'other_event' })
  }
}

/**
 * Takes a record again whose effects are in the books already: only the refreshes under way are staged
 * again. Judging or pushing a second time would be against a book that has changed since.
 */
export function replayOpenRefresh(books: Books, side: Side, record: InputRecord, catalog: CatalogLookup): void {
  const { event, value } = record
  const book = bookOf(books, side, value.provider)
  if (event === 'RefreshCompleted') {
    forgetOverdue(books, record)
    if (!isLate(book, value)) dropStaged(book)
  } else if (event === 'RefreshFailed') dropStaged(book)
  else if (value.refresh_id !== null) step(books, side, record, catalog)
}

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

export function bookOf(books: Books, side: Side, provider: string): ProviderBook {
  let book = books.get(provider)
  if (book === undefined) {
    book = emptyBook(provider, side)
    books.set(provider, book)
  }
  return book
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

/** The refresh that an entry belongs to. Index 0 opens one, a second attempt at the same included; any other index must follow the one before. */
function openRefresh(
  book: ProviderBook,
  refreshId: string,
  entry: { index: number; currency?: string },
  source: ChangeSource,
  catalog: CatalogLookup,
): OpenRefresh | undefined {
  if (entry.index === 0) {
    dropStaged(book)
    book.open = newRefresh(refreshId, entry.currency ?? '', catalog, source.offset)
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
  const early = timeFault(seen.observed_at, source.appendedAt)
  if (early) return only({ kind: 'deadLetter', ...early })
  const currency = book.listed > 0 ? book.currency : seen.currency
  const fault = seen.price === null ? undefined : faultOf(seen, currency)
  if (fault) return only(fault)
  const rate = parseRate(seen.usd_rate ?? '')
  if (rate === undefined) return only({ kind: 'deadLetter', reason: 'unusable_rate', detail: `${seen.usd_rate}` })
  const itemId = catalog.idOf(seen.market_hash_name, seen.phase)
  if (itemId === undefined) return only(unresolved(seen))
  // What a refresh withdrew has no row with its age, but is as old as the refresh at least.
  if (seen.observed_at < Math.max(book.seenAt[itemId] ?? 0, book.lastObservedAt))
    return only({ kind: 'skip', reason: 'stale' })
  const row = { itemId, price: seen.price ?? 0, quantity: seen.quantity, url: seen.url }
  const applied = unlessTooLarge(() => applyPushed(book, row, { currency, rate, seenAt: seen.observed_at, source }))
  if (applied) return { outcome: OK, ...applied }
  return only({ kind: 'deadLetter', reason: TOO_LARGE, detail: `${seen.price} ${currency}` })
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
  const rate = parseRate(completed.usd_rate)
  const firstOffset = book.open?.firstOffset ?? source.offset
  const seen = seenIn(book, completed, catalog)
  const judgement = judge(book, completed, rate, source.appendedAt)
  const { comparison, suspicion } = judgement
  const applied =
    judgement.verdict === 'applied' && rate
      ? unlessTooLarge(() => applyRefresh(book, completed, rate, source))
      : NOTHING
  const { verdict, reason } = applied ? judgement : ({ verdict: 'failed', reason: TOO_LARGE } as const)
  dropStaged(book)
  if (verdict === 'applied' || verdict === 'quarantined') remember(book, completed, suspicion)
  const { changes, urlChanges } = applied ?? NOTHING
  const judged = verdictOf(book, completed, source, { verdict, reason }, changes, seen)
  const decision: Decision = { outcome: OK, changes, urlChanges, judged }
  const { refresh_id, observed_at } = completed
  const about = { side: book.side, provider: book.provider, refresh_id, source_partition: source.partition }
  if (verdict === 'applied') {
    const { catalog_version } = seen
    decision.marked = { ...about, source_offset: source.offset, last_updated: observed_at, catalog_version }
  } else if (verdict === 'quarantined') {
    decision.quarantined = {
      ...about,
      observed_at,
      reason: reason ?? '',
      first_offset: firstOffset,
      last_offset: source.offset,
      items_before: comparison.before,
      items_now: comparison.now,
      moved: comparison.moved,
      compared: comparison.shared,
    }
  }
  return decision
}

/** The outcome of a refresh's names, and the version of the catalog that decided it. */
type SeenNames = Pick<RefreshJudged, 'unresolved' | 'rejected' | 'catalog_version'>

const NOTHING_SEEN: SeenNames = { unresolved: 0, rejected: 0, catalog_version: null }

function seenIn({ open }: ProviderBook, { count }: RefreshCompleted, catalog: CatalogLookup): SeenNames {
  if (open) return { unresolved: open.unresolved, rejected: open.rejected, catalog_version: open.catalog.version }
  return count === 0 ? { ...NOTHING_SEEN, catalog_version: catalog.version } : NOTHING_SEEN
}

const TOO_LARGE = 'amount_too_large'

/** Micro-dollars beyond 2^53 are a fault of the record that brings them, not of the book. */
function unlessTooLarge<T>(apply: () => T): T | undefined {
  try {
    return apply()
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

function remember(book: ProviderBook, completed: RefreshCompleted, suspicion: ProviderBook['suspicion']): void {
  book.lastRefreshId = completed.refresh_id
  book.lastObservedAt = completed.observed_at
  book.suspicion = suspicion
  if (suspicion === null) book.lastAppliedAt = completed.observed_at
}

function fail(book: ProviderBook, { observed_at, reason }: RefreshFailed, source: ChangeSource): Decision {
  dropStaged(book)
  const failed = { verdict: 'failed', reason } as const
  return { ...only(OK), judged: verdictOf(book, { refresh_id: null, observed_at }, source, failed, [], NOTHING_SEEN) }
}

function verdictOf(
  book: ProviderBook,
  { refresh_id, observed_at }: Pick<RefreshJudged, 'refresh_id' | 'observed_at'>,
  { appendedAt }: ChangeSource,
  verdict: Pick<RefreshJudged, 'verdict' | 'reason'>,
  changes: readonly BookChanged[],
  seen: SeenNames,
): RefreshJudged {
  const totals = totalsOf(book)
  const count = (kind: BookChanged['change']): number => changes.filter(({ change }) => change === kind).length
  return {
    side: book.side,
    provider: book.provider,
    refresh_id,
    // A time of the future becomes the append time: a verdict's time is when a provider was last checked.
    observed_at: isFromTheFuture(observed_at, appendedAt) ? appendedAt : observed_at,
    ...verdict,
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
