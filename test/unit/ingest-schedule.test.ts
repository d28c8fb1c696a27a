import { expect } from 'chai'
import fc from 'fast-check'
import { DAY_MS, HOUR_MS } from '#schemas/values/instant.ts'
import { dueAt, pastRefreshes, tickAt } from '#services/ingest/schedule.ts'

const sourceOf = (provider: string, intervalMs = 60_000, side: 'ask' | 'bid' | 'sale' = 'ask') => ({
  provider,
  side,
  intervalMs,
})
const NOW = Date.UTC(2026, 2, 5, 12)

describe('ingest: schedule', () => {
  const sources = fc.record({
    provider: fc.string({ minLength: 1 }),
    side: fc.constantFrom('ask', 'bid', 'sale' as const),
    intervalMs: fc.integer({ min: 1_000, max: 7 * DAY_MS }),
  })
  const times = fc.integer({ min: 0, max: 4e12 })

  it('the nth due time lies in the nth interval, and the same in every process', () => {
    fc.assert(
      fc.property(sources, fc.nat(1e6), (source, tick) => {
        const due = dueAt(source, tick)
        expect(due)
          .to.be.at.least(tick * source.intervalMs)
          .and.below((tick + 1) * source.intervalMs)
        expect(dueAt({ ...source }, tick)).to.equal(due)
      }),
    )
  })

  it('the last tick was due, the next is yet to come', () => {
    fc.assert(
      fc.property(sources, times, (source, time) => {
        const tick = tickAt(source, time)
        expect(dueAt(source, tick)).to.be.at.most(time)
        expect(dueAt(source, tick + 1)).to.be.greaterThan(time)
      }),
    )
  })

  it('a due time is its own tick, so a refresh published at it is not published again', () => {
    fc.assert(fc.property(sources, fc.nat(1e6), (source, tick) => tickAt(source, dueAt(source, tick)) === tick))
  })

  it('spreads providers over the interval and jitters their ticks', () => {
    const offsets = Array.from({ length: 41 }, (_, i) => dueAt(sourceOf(`provider_${i}`), 0))
    const quarters = new Set(offsets.map(offset => Math.floor(offset / 15_000)))
    expect([...quarters].sort()).to.deep.equal([0, 1, 2, 3])
    const gaps = new Set(Array.from({ length: 20 }, (_, n) => dueAt(sourceOf('p'), n + 1) - dueAt(sourceOf('p'), n)))
    expect(gaps.size).to.be.greaterThan(10)
  })
})

describe('ingest: the past of a source', () => {
  const source = sourceOf('a', DAY_MS, 'sale')
  const past = (now: number, published?: number, days = 3) =>
    pastRefreshes(source, { days, refreshes_per_day: 8, now, published })
  const times = (refreshes: { at: number }[]) => refreshes.map(({ at }) => at)

  it('is 8 refreshes a day for 3 days, oldest first, ending just before now', () => {
    const planned = times(past(NOW))
    expect(planned).to.have.length(24)
    expect(planned).to.deep.equal(planned.toSorted((a, b) => a - b))
    expect(planned.at(-1))
      .to.be.below(NOW)
      .and.at.least(NOW - DAY_MS / 8)
    expect(planned[0]).to.be.greaterThan(NOW - 3 * DAY_MS)
  })

  it('names for each refresh the one before it, so that sale windows touch', () => {
    const own = past(NOW)
    for (let i = 1; i < own.length; i++) expect(own[i]?.after).to.equal(own[i - 1]?.at)
  })

  it('repeats nothing that the log holds: two plans, the second after a stop at any point, make one', () => {
    const whole = times(past(NOW))
    for (const stoppedAt of [0, 1, 17, whole.length])
      expect(times(past(NOW, whole[stoppedAt - 1]))).to.deep.equal(whole.slice(stoppedAt))
  })

  it('keeps its grid when it is planned a little later', () => {
    const later = times(past(NOW + HOUR_MS))
    const shared = times(past(NOW)).filter(at => at > NOW + HOUR_MS - 3 * DAY_MS)
    expect(later.slice(0, shared.length)).to.deep.equal(shared)
  })

  it('of no days is empty', () => expect(past(NOW, undefined, 0)).to.deep.equal([]))
})
