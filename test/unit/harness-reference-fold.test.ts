/**
 * The reference of fault tests against the book's own step on random refreshes: two independent writings of the same rules must
 * agree on every change. What the rules are is claimed of the book (book-step.test.ts, book-quarantine.test.ts).
 */
import { expect } from 'chai'
import fc from 'fast-check'
import type { Side } from '#schemas/events/book-changed.ts'
import { appended, at, begun, type InputRecord, LATE, play, refresh } from '#test/fixtures/book-inputs.ts'
import { type ExpectedChange, entryOfChange, foldRefreshes, type GivenRefresh } from '#test/harness/reference-fold.ts'

describe('reference fold', () => {
  it('agrees with the book on random refreshes', () => {
    let compared = 0
    fc.assert(
      fc.property(fc.array(randomRefresh, { maxLength: 12 }), given => {
        const refreshes = inTime(given)
        const expected = foldRefreshes(refreshes).changes
        expect(byRow(bookOf(refreshes))).to.deep.equal(byRow(expected))
        compared += expected.length
      }),
      { numRuns: 2_000 },
    )
    expect(compared).to.be.above(2_000)
  })
})

const byRow = (changes: readonly ExpectedChange[]) => Map.groupBy(changes.map(entryOfChange), ({ key }) => key)

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
const lateRecords = (provider: string): InputRecord[] =>
  refresh(1_000, [...Array(8).fill(at(1, 1)), { name: '2' }], { provider, id: 'late', lost: [0, 1, 2, 3, 4, 5, 6] })

/** A refresh as ingest writes it. */
function recordsOf(given: GivenRefresh): InputRecord[] {
  const { provider, refreshId: id, observedAt, currency, usdRate: rate, appendedAt = LATE } = given
  const entries = given.entries.map(({ itemId, price, quantity }) => at(itemId ?? 'unknown', price, { quantity }))
  const records = (given.completed ? refresh : begun)(observedAt, entries, { provider, id, currency, rate })
  // What a former owner of the feed still writes of another refresh, whose begin this one has replaced.
  if (entries.length > 1) records.splice(entries.length - 1, 0, ...lateRecords(provider))
  return appended(appendedAt, records)
}

/** The changes that the book's step makes of the same refreshes: each side has a log of its own. */
const bookOf = (refreshes: readonly GivenRefresh[]): ExpectedChange[] =>
  (['ask', 'bid'] as const).flatMap(
    side => play(refreshes.filter(one => one.side === side).flatMap(recordsOf), side).changes,
  )
