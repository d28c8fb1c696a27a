/**
 * Random inputs of several providers in one partition - whole, cut, repeated, stale, empty, suspect (some until they are
 * believed) and failed refreshes, pushed observations - and random kills, each with work that was not yet committed.
 */
import { expect } from 'chai'
import fc from 'fast-check'
import { CLOCK_SLACK_MS } from '#schemas/values/event-time.ts'
import { type Books, openFrom, step } from '#streams/book/step.ts'
import {
  at,
  begun,
  type Entry,
  failed,
  type InputRecord,
  LATE,
  numberedItems,
  pushed,
  type RefreshMembers,
  refresh,
} from '#test/fixtures/book-inputs.ts'
import { type Kill, runBook } from '#test/fixtures/book-processor.ts'

const TEN_MINUTES_MS = 600_000

const urls = fc.constantFrom(null, null, 'https://a.example/1', 'https://a.example/2')

const CURRENCIES = { USD: '1', EUR: '0.87', XAU: '0.0001' } as const

const entry: fc.Arbitrary<Entry> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc
      .record({
        item: fc.integer({ min: 1, max: 6 }),
        price: fc.constantFrom(100, 100, 110, 175, 10_000, 0, -1),
        quantity: fc.integer({ min: 1, max: 2 }),
        url: urls,
      })
      .map(({ item, price, ...more }) => at(item, price, more)),
  },
  { weight: 1, arbitrary: fc.constantFrom<Entry>(at('unknown', 5), { name: 'rejected' }, at(1, 10 ** 12)) },
)

const members: fc.Arbitrary<RefreshMembers> = fc
  .record({ provider: fc.constantFrom('p', 'q'), currency: fc.constantFrom('USD', 'USD', 'USD', 'EUR', 'XAU') })
  .map(given => ({ ...given, rate: CURRENCIES[given.currency as keyof typeof CURRENCIES] }))

/** What one provider does: a stretch of the log, later mixed with those of others. */
const act: fc.Arbitrary<InputRecord[]> = fc
  .record({
    members,
    ticks: fc.integer({ min: 1, max: 15 }),
    entries: fc.array(entry, { maxLength: 7 }),
    lost: fc.option(fc.integer({ min: 0, max: 6 }), { nil: undefined, freq: 4 }),
    kind: fc.constantFrom('whole', 'whole', 'insistent', 'cut', 'late', 'repeated', 'failed', 'pushed', 'withdrawn'),
    isFromTheFuture: fc.integer({ min: 0, max: 7 }).map(chance => chance === 0),
    item: fc.integer({ min: 1, max: 6 }),
    url: urls,
  })
  .map(({ members, ticks, isFromTheFuture, entries, lost, kind, item, url }) => {
    const past = ticks * TEN_MINUTES_MS
    const time = isFromTheFuture ? LATE + CLOCK_SLACK_MS + past : past
    const { provider = 'p', currency, rate } = members
    const lossy = lost === undefined ? members : { ...members, lost: [lost] }
    if (kind === 'cut') return begun(time, entries, members)
    if (kind === 'late') return refresh(time, entries, members).slice(1)
    if (kind === 'repeated') return [...begun(time, entries, members), ...refresh(time, entries.slice(1), members)]
    if (kind === 'failed') return [failed(time, 'timeout', provider)]
    if (kind === 'insistent') {
      return [0, 1, 3].flatMap(later => refresh(time + later * TEN_MINUTES_MS, entries, lossy))
    }
    if (kind === 'pushed') return [pushed(time, item, 100 + (ticks % 3), { provider, currency, rate, url })]
    if (kind === 'withdrawn') return [pushed(time, item, null, { provider, currency, rate })]
    return refresh(time, entries, lossy)
  })

/** Two feeds, mixed record by record as partitions mix providers. */
const input: fc.Arbitrary<InputRecord[]> = fc
  .record({
    one: fc.array(act, { maxLength: 7 }),
    other: fc.array(act, { maxLength: 7 }),
    turns: fc.infiniteStream(fc.boolean()),
  })
  .map(({ one, other, turns }) => {
    const [left, right] = [one.flat(), other.flat()]
    const mixed: InputRecord[] = []
    while (left.length > 0 || right.length > 0) {
      const isLeft = right.length === 0 || (left.length > 0 && turns.next().value)
      mixed.push((isLeft ? left.shift() : right.shift()) as InputRecord)
    }
    return mixed
  })

const kills: fc.Arbitrary<Kill[]> = fc
  .array(fc.record({ at: fc.integer({ min: 0, max: 80 }), uncommitted: fc.integer({ min: 0, max: 20 }) }), {
    minLength: 1,
    maxLength: 4,
  })
  .map(list => list.sort((a, b) => a.at - b.at))

describe('book restart', () => {
  it('used to bring back what a pushing provider had withdrawn, when an older observation followed a restart', () => {
    const records = [pushed(5, 1, 100), pushed(7, 1, null), pushed(6, 1, 90)]
    expect(runBook(records, [{ at: 2, uncommitted: 0 }])).to.deep.equal(runBook(records))
  })

  it('used to withdraw a row again that a later observation had brought, when it read its input again', () => {
    const cut = begun(1, [at(1, 100)])
    const records = [...cut, pushed(2, 6, null, { provider: 'q' }), pushed(1, 6, 101, { provider: 'q' })]
    const next = pushed(3, 6, 102, { provider: 'q' })
    expect(runBook([...records, next], [{ at: 3, uncommitted: 0 }])).to.deep.equal(runBook([...records, next]))
  })

  it('used to judge an empty second attempt another way after a restart', () => {
    const records = [
      ...begun(1, [at(1, 100)], { provider: 'q' }),
      ...begun(1, [at(1, 100)]),
      ...refresh(1, [], { provider: 'q' }),
      ...refresh(1, [], { provider: 'q' }),
    ]
    expect(runBook(records, [{ at: 3, uncommitted: 0 }])).to.deep.equal(runBook(records))
  })

  it('used to read from a refresh that was cut for good at every restart: after a million records it is forgotten', () => {
    const books: Books = new Map()
    const feed = (offset: number, records: readonly InputRecord[]) => {
      for (const { event, value } of records)
        step(books, 'ask', { partition: 0, offset, appendedAt: LATE, event, value }, numberedItems)
    }
    feed(10, begun(1, [at(1, 100)], { provider: 'gone' }))
    feed(1_000_010, refresh(1, [at(1, 100)]))
    expect(openFrom(books)).to.equal(10)
    feed(1_000_011, refresh(2, [at(1, 100)]))
    expect(openFrom(books)).to.equal(undefined)
  })

  it('a killed and restored book says what one says that runs on, and keeps the same state', () => {
    fc.assert(
      fc.property(input, kills, (records, killed) => {
        const [restarted, unbroken] = [runBook(records, killed), runBook(records)]
        expect(restarted, storyOf(records, killed)).to.deep.equal(unbroken)
      }),
      { numRuns: 3_000 },
    )
  })
})

/** The counterexample, one short line a record. */
function storyOf(records: readonly InputRecord[], killed: readonly Kill[]): string {
  const lines = records.map(({ event, value }, offset) => {
    const { provider, refresh_id, index, observed_at, market_hash_name, price, count, currency } = value
    const what = [refresh_id, index, market_hash_name, price, count, currency].filter(member => member !== undefined)
    return `${offset} ${event} ${provider} t${observed_at} ${what.join(' ')}`
  })
  return [...lines, JSON.stringify(killed)].join('\n')
}
