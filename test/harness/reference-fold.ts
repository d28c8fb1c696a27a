/**
 * What the book should say of a list of refreshes: the rules by brute force, with no code of streams/book: plain maps, whole refreshes at a
 * time, exact fractions for money. Members are named as in the event, so that both can be compared as they are.
 */
import type { BookChanged, Side } from '#schemas/events/book-changed.ts'
import type { Verdict } from '#schemas/events/refresh-judged.ts'
import { MINUTE_MS } from '#schemas/values/instant.ts'
import type { LedgerEntry } from './ledger.ts'

/** One entry of a refresh, its name resolved already; undefined where the catalog has no such item. */
interface GivenEntry {
  itemId: number | undefined
  price: number
  quantity: number
}

/** A refresh as it was published; the list of them is in the order of the log. */
export interface GivenRefresh {
  side: Side
  provider: string
  refreshId: string
  observedAt: number
  /** When the log took its last record, about; left out where its time lies in the past for sure. */
  appendedAt?: number
  currency: string
  usdRate: string
  entries: readonly GivenEntry[]
  /** False when its RefreshCompleted never came, or an entry was lost on the way. */
  completed: boolean
}

/** A change without the record that caused it. */
export type ExpectedChange = Omit<BookChanged, 'source_partition' | 'source_offset' | 'source_index' | 'url'>

interface ExpectedRow {
  price: number
  currency: string
  price_micro_usd: number
  quantity: number
  seen_at: number
}

export interface Expected {
  changes: ExpectedChange[]
  /** `<side>|<provider>` → item → row. */
  books: Map<string, Map<number, ExpectedRow>>
  /** `<side>|<provider>` → time of the last applied refresh. */
  refreshedAt: Map<string, number>
  verdicts: { side: Side; provider: string; refresh_id: string; verdict: Verdict; reason: string | null }[]
}

export const bookKey = (side: Side, provider: string): string => `${side}|${provider}`

/** A change as the ledger takes it: keyed by row, without its source. */
export const entryOfChange = (change: ExpectedChange): LedgerEntry => ({
  key: `${bookKey(change.side, change.provider)}|${change.item_id}`,
  what: [
    ...[change.change, change.price, change.currency, change.price_micro_usd, change.usd_rate, change.quantity],
    ...[change.previous_micro_usd, change.previous_quantity, change.seen_at, change.refresh_id],
  ].join(' '),
})

interface ProviderBook {
  rows: Map<number, ExpectedRow>
  judgedAt: number
  /** Times of the refreshes in a row that were held back. */
  heldBack: number[]
}

/** Folds refreshes into the changes, the final books and the verdicts that the rules ask for. */
export function foldRefreshes(refreshes: Iterable<GivenRefresh>): Expected {
  const providerBooks = new Map<string, ProviderBook>()
  const expected: Expected = { changes: [], books: new Map(), refreshedAt: new Map(), verdicts: [] }
  for (const refresh of refreshes) {
    const key = bookKey(refresh.side, refresh.provider)
    const book: ProviderBook = providerBooks.get(key) ?? { rows: new Map(), judgedAt: 0, heldBack: [] }
    providerBooks.set(key, book)
    expected.books.set(key, book.rows)
    const staged = stagedRows(refresh)
    const { verdict, reason } = judged(refresh, book, staged)
    const { side, provider, refreshId: refresh_id } = refresh
    expected.verdicts.push({ side, provider, refresh_id, verdict, reason })
    if (verdict !== 'applied' && verdict !== 'quarantined') continue
    book.judgedAt = refresh.observedAt
    if (verdict === 'quarantined') {
      book.heldBack.push(refresh.observedAt)
      continue
    }
    book.heldBack = []
    expected.refreshedAt.set(key, refresh.observedAt)
    for (const change of changesOf(refresh, book.rows, staged)) expected.changes.push(change)
  }
  return expected
}

/** An item listed twice counts with its better price; equal prices add their quantities. */
function stagedRows(refresh: GivenRefresh): Map<number, ExpectedRow> {
  const rows = new Map<number, ExpectedRow>()
  for (const { itemId, price, quantity } of refresh.entries) {
    if (itemId === undefined || !(price > 0) || !(quantity > 0)) continue
    const other = rows.get(itemId)
    const isBetter = other === undefined || (refresh.side === 'ask' ? price < other.price : price > other.price)
    if (isBetter) {
      const { currency, observedAt: seen_at } = refresh
      rows.set(itemId, { price, currency, price_micro_usd: exactMicroUsd(price, refresh.usdRate), quantity, seen_at })
    } else if (price === other.price) other.quantity += quantity
  }
  return rows
}

function judged(
  refresh: GivenRefresh,
  { rows, judgedAt, heldBack }: ProviderBook,
  staged: ReadonlyMap<number, ExpectedRow>,
): { verdict: Verdict; reason: string | null } {
  if (!refresh.completed) return { verdict: 'incomplete', reason: 'count_mismatch' }
  if (minutesAhead(refresh) > 10) return { verdict: 'failed', reason: 'from_the_future' }
  if (refresh.observedAt <= judgedAt) return { verdict: 'stale', reason: 'not_newer' }
  const shared = [...rows].filter(([itemId]) => staged.has(itemId))
  const lost = rows.size - shared.length
  const moved = shared.filter(([itemId, row]) => hasMoved(row, staged.get(itemId) as ExpectedRow)).length
  const looksLike = lost * 2 > rows.size ? 'collapsed' : moved * 2 > shared.length ? 'glitch' : null
  const [first = refresh.observedAt, second] = heldBack
  const isConfirmed = second !== undefined && refresh.observedAt >= first + 30 * MINUTE_MS
  return { verdict: looksLike === null || isConfirmed ? 'applied' : 'quarantined', reason: looksLike }
}

const minutesAhead = ({ observedAt, appendedAt = observedAt }: GivenRefresh): number =>
  (observedAt - appendedAt) / MINUTE_MS

/** By over 80 percent, in the provider's currency or, when that changed, in dollars. */
function hasMoved(before: ExpectedRow, now: ExpectedRow): boolean {
  const [from, to] =
    before.currency === now.currency ? [before.price, now.price] : [before.price_micro_usd, now.price_micro_usd]
  return 5n * BigInt(Math.abs(to - from)) > 4n * BigInt(from)
}

/** Makes the rows equal to what was staged and returns how they changed, by ascending item. */
function changesOf(
  refresh: GivenRefresh,
  rows: Map<number, ExpectedRow>,
  staged: ReadonlyMap<number, ExpectedRow>,
): ExpectedChange[] {
  const changes: ExpectedChange[] = []
  for (const item_id of [...new Set([...rows.keys(), ...staged.keys()])].sort((a, b) => a - b)) {
    const before = rows.get(item_id)
    const now = staged.get(item_id)
    const isSame = before?.price === now?.price && before?.quantity === now?.quantity
    if (isSame && before?.currency === now?.currency) continue
    changes.push({
      side: refresh.side,
      provider: refresh.provider,
      item_id,
      change: before === undefined ? 'added' : now === undefined ? 'removed' : 'updated',
      price: now?.price ?? null,
      currency: refresh.currency,
      price_micro_usd: now?.price_micro_usd ?? null,
      usd_rate: refresh.usdRate,
      quantity: now?.quantity ?? 0,
      previous_micro_usd: before?.price_micro_usd ?? null,
      previous_quantity: before?.quantity ?? 0,
      seen_at: refresh.observedAt,
      refresh_id: refresh.refreshId,
    })
    if (now === undefined) rows.delete(item_id)
    else rows.set(item_id, now)
  }
  return changes
}

/** Hundredths x 10,000 / rate as an exact fraction, half up. */
function exactMicroUsd(minor: number, rate: string): number {
  const [whole = '', fraction = ''] = rate.split('.')
  const numerator = BigInt(minor) * 10_000n * 10n ** BigInt(fraction.length)
  const denominator = BigInt(whole + fraction)
  return Number((2n * numerator + denominator) / (2n * denominator))
}
