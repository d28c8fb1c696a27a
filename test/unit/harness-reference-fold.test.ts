/**
 * The reference of fault tests against the book's own step on random refreshes: two independent writings of the same rules must
 * agree on every change. What the rules are is claimed of the book (book-step.test.ts, book-quarantine.test.ts).
 */
import { expect } from 'chai'
import fc from 'fast-check'
import type { Side } from '#schemas/events/book-changed.ts'
import { type Books, step } from '#streams/book/step.ts'
import { LATE } from '#test/fixtures/book-inputs.ts'
import { isBalanced, ledgerTable, openLedger } from '#test/harness/ledger.ts'
import { type ExpectedChange, entryOfChange, foldRefreshes, type GivenRefresh } from '#test/harness/reference-fold.ts'

describe('reference fold', () => {
  it('agrees with the book on random refreshes', () => {
    let compared = 0
    fc.assert(
      fc.property(fc.array(randomRefresh, { maxLength: 12 }), given => {
        const refreshes = inTime(given)
        const expected = foldRefreshes(refreshes).changes.map(entryOfChange)
        const ledger = openLedger(expected, bookOf(refreshes).map(entryOfChange), expected.length || 'none')
        if (!isBalanced(ledger)) throw new Error(ledgerTable({ book: ledger }))
        compared += expected.length
      }),
      { numRuns: 2_000 },
    )
    expect(compared).to.be.above(2_000)
  })
})

const FIVE_MINUTES_MS = 300_000

/** A refresh that comes again and again, every ten minutes. */
type RepeatedRefresh = GivenRefresh & { waited: number; times: number }

/** Refreshes as a log takes them, one after the other. */
function inTime(given: readonly RepeatedRefresh[]): GivenRefresh[] {
  let appendedAt = 0
  return given.flatMap(({ waited, times, ...refresh }) =>
    Array.from({ length: times }, (_, at) => {
      const after = at * 2 * FIVE_MINUTES_MS
      appendedAt += at === 0 ? waited : 2 * FIVE_MINUTES_MS
      const [observedAt, refreshId] = [refresh.observedAt + after, `${refresh.refreshId}+${after}`]
      return { ...refresh, observedAt, refreshId, appendedAt }
    }),
  )
}

const randomRefresh: fc.Arbitrary<RepeatedRefresh> = fc
  .record({
    side: fc.constantFrom<Side>('ask', 'bid'),
    provider: fc.constantFrom('p', 'q'),
    observedAt: fc.integer({ min: 1, max: 20 }).map(each => each * FIVE_MINUTES_MS),
    waited: fc.constantFrom(0, FIVE_MINUTES_MS, 3 * FIVE_MINUTES_MS),
    times: fc.constantFrom(1, 1, 4),
    currency: fc.constantFrom('USD', 'EUR'),
    completed: fc.integer({ min: 0, max: 9 }).map(chance => chance > 0),
    entries: fc.array(
      fc.record({
        itemId: fc.option(fc.integer({ min: 1, max: 8 }), { nil: undefined, freq: 10 }),
        price: fc.constantFrom(0, 95, 100, 100, 105, 175, 180, 181, 10_000),
        quantity: fc.integer({ min: 1, max: 2 }),
      }),
      { maxLength: 10 },
    ),
  })
  .map(given => ({
    ...given,
    // An attempt without entries writes no first one, so it cannot take up an interrupted refresh of its id.
    refreshId: `r${given.observedAt}${given.entries.length === 0 ? '-empty' : ''}`,
    usdRate: given.currency === 'USD' ? '1' : '0.87',
  }))

/** The end of a refresh of another id, as the log would hold it of a writer that is not fenced. */
function lateRecords(provider: string): [string, object][] {
  const about = { provider, refresh_id: 'late', observed_at: 1_000 }
  const offer = {
    market_hash_name: '1',
    phase: null,
    price: 1,
    quantity: 1,
    currency: 'USD',
    url: null,
    usd_rate: null,
  }
  return [
    ['AskObserved', { ...about, ...offer, index: 7 }],
    ['ObservationRejected', { ...about, index: 8, market_hash_name: '2', raw: '{}', reason: 'price_missing' }],
    ['RefreshCompleted', { ...about, count: 9, currency: 'USD', usd_rate: '1' }],
  ]
}

/** The changes that the book's step makes of the same refreshes, written to the log as ingest writes them. */
function bookOf(refreshes: readonly GivenRefresh[]): ExpectedChange[] {
  const books: Record<Side, Books> = { ask: new Map(), bid: new Map() }
  const changes: ExpectedChange[] = []
  let offset = 0
  for (const refresh of refreshes) {
    const { side, provider, refreshId, observedAt, currency, usdRate, entries, completed } = refresh
    const { appendedAt = LATE } = refresh
    const catalog = { version: 'numbers', idOf: (name: string) => (name === 'unknown' ? undefined : Number(name)) }
    const take = (event: string, value: object) => {
      const { effects } = step(books[side], side, { partition: 0, offset: offset++, appendedAt }, event, value, catalog)
      changes.push(...effects.changes)
    }
    const common = { provider, refresh_id: refreshId, observed_at: observedAt, currency, url: null, usd_rate: null }
    const last = entries.length - 1
    for (const [index, { itemId, price, quantity }] of entries.entries()) {
      // What a former owner of the feed still writes of another refresh, whose begin this one has replaced.
      if (index === last && last > 0) for (const late of lateRecords(provider)) take(...late)
      take('AskObserved', {
        ...common,
        index,
        market_hash_name: String(itemId ?? 'unknown'),
        phase: null,
        price,
        quantity,
      })
    }
    const count = entries.length
    if (completed)
      take('RefreshCompleted', {
        provider,
        refresh_id: refreshId,
        observed_at: observedAt,
        count,
        currency,
        usd_rate: usdRate,
      })
  }
  return changes
}
