import { expect } from 'chai'
import fc from 'fast-check'
import { DAY_MS, HOUR_MS } from '#schemas/values/instant.ts'
import { dueAt, planBackfill, tickAt } from '#services/ingest/schedule.ts'

const feedOf = (provider: string, intervalMs = 60_000, side: 'ask' | 'bid' | 'sale' = 'ask') => ({
  provider,
  side,
  intervalMs,
})
const NOW = Date.UTC(2026, 2, 5, 12)

describe('ingest: schedule', () => {
  const feeds = fc.record({
    provider: fc.string({ minLength: 1 }),
    side: fc.constantFrom('ask', 'bid', 'sale' as const),
    intervalMs: fc.integer({ min: 1_000, max: 7 * DAY_MS }),
  })
  const times = fc.integer({ min: 0, max: 4e12 })

  it('the nth due time lies in the nth interval, and the same in every process', () => {
    fc.assert(
      fc.property(feeds, fc.nat(1e6), (feed, tick) => {
        const due = dueAt(feed, tick)
        expect(due)
          .to.be.at.least(tick * feed.intervalMs)
          .and.below((tick + 1) * feed.intervalMs)
        expect(dueAt({ ...feed }, tick)).to.equal(due)
      }),
    )
  })

  it('the last tick was due, the next is yet to come', () => {
    fc.assert(
      fc.property(feeds, times, (feed, time) => {
        const tick = tickAt(feed, time)
        expect(dueAt(feed, tick)).to.be.at.most(time)
        expect(dueAt(feed, tick + 1)).to.be.greaterThan(time)
      }),
    )
  })

  it('a due time is its own tick, so a refresh published at it is not published again', () => {
    fc.assert(fc.property(feeds, fc.nat(1e6), (feed, tick) => tickAt(feed, dueAt(feed, tick)) === tick))
  })

  it('spreads providers over the interval and jitters their ticks', () => {
    const offsets = Array.from({ length: 41 }, (_, i) => dueAt(feedOf(`provider_${i}`), 0))
    const quarters = new Set(offsets.map(offset => Math.floor(offset / 15_000)))
    expect([...quarters].sort()).to.deep.equal([0, 1, 2, 3])
    const gaps = new Set(Array.from({ length: 20 }, (_, n) => dueAt(feedOf('p'), n + 1) - dueAt(feedOf('p'), n)))
    expect(gaps.size).to.be.greaterThan(10)
  })
})

describe('ingest: backfill plan', () => {
  const feeds = [feedOf('a'), feedOf('b'), feedOf('a', 60_000, 'bid'), feedOf('a', DAY_MS, 'sale')]
  const plan = (now: number, published: Record<string, number> = {}, days = 3) =>
    planBackfill(feeds, {
      days,
      refreshesPerDay: 8,
      now,
      published: ({ side, provider }) => published[side + provider],
    })

  it('holds every feed 8 times a day for 3 days, in global time order, ending just before now', () => {
    const planned = plan(NOW)
    expect(planned).to.have.length(feeds.length * 24)
    expect(planned.map(({ at }) => at)).to.deep.equal(planned.map(({ at }) => at).sort((a, b) => a - b))
    for (const feed of feeds) {
      const own = planned.filter(past => past.feed === feed)
      expect(own).to.have.length(24)
      expect(own.at(-1)?.at)
        .to.be.below(NOW)
        .and.at.least(NOW - DAY_MS / 8)
      expect(own.at(0)?.at).to.be.greaterThan(NOW - 3 * DAY_MS)
    }
  })

  it('names for each refresh the one before it, so that sale windows touch', () => {
    const own = plan(NOW).filter(past => past.feed.side === 'sale')
    for (let i = 1; i < own.length; i++) expect(own[i]?.after).to.equal(own[i - 1]?.at)
  })

  it('repeats nothing that the log holds: two plans, the second after a stop at any point, make one', () => {
    const whole = plan(NOW)
    for (const stoppedAt of [0, 1, 17, whole.length]) {
      const published: Record<string, number> = {}
      for (const { feed, at } of whole.slice(0, stoppedAt)) published[feed.side + feed.provider] = at
      const rest = plan(NOW, published)
      expect(rest.map(({ feed, at }) => [feed, at])).to.deep.equal(
        whole.slice(stoppedAt).map(({ feed, at }) => [feed, at]),
      )
    }
  })

  it('keeps its grid when it is planned a little later', () => {
    const times = (past: { at: number }[]) => past.map(({ at }) => at)
    const later = times(plan(NOW + HOUR_MS))
    const shared = times(plan(NOW)).filter(at => at > NOW + HOUR_MS - 3 * DAY_MS)
    expect(later.slice(0, shared.length)).to.deep.equal(shared)
  })

  it('of no days is empty', () => expect(plan(NOW, {}, 0)).to.deep.equal([]))
})
