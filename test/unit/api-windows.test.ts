import { expect } from 'chai'
import fc from 'fast-check'
import { loadTiers } from '#infra/config/tiers.ts'
import { HttpError } from '#infra/http/http-error.ts'
import { DAY_MS, MINUTE_MS } from '#schemas/values/instant.ts'
import { demandCandleTier, historyWindow, windowOf } from '#services/api/queries/windows.ts'

const WIDTHS = { '5m': 5 * MINUTE_MS, '1h': 60 * MINUTE_MS, '1d': DAY_MS }
const KEPT_DAYS = { '5m': 7, '1h': 30, '1d': 365 }
const NOW = Date.UTC(2026, 2, 3, 21, 34, 30, 549)

const interval = fc.constantFrom('5m' as const, '1h' as const, '1d' as const)
const moment = fc.integer({ min: NOW - 400 * DAY_MS, max: NOW + 2 * DAY_MS })

/** Starts of all buckets from the epoch of the test to beyond now that fit. */
function bucketsWhere(width: number, fits: (bucket: number) => boolean): number[] {
  const first = Math.floor((NOW - 500 * DAY_MS) / DAY_MS) * DAY_MS
  const found: number[] = []
  for (let bucket = first; bucket < NOW + 3 * DAY_MS; bucket += width) if (fits(bucket)) found.push(bucket)
  return found
}

const bucketsOf = ({ start, end, intervalMs }: { start: number; end: number; intervalMs: number }): number[] =>
  bucketsWhere(intervalMs, bucket => bucket >= start && bucket < end)

describe('the window of candles', () => {
  it('holds the buckets that start in it, as far as they are kept and begun', () => {
    fc.assert(
      fc.property(interval, moment, moment, (name, one, other) => {
        const [start, end] = one < other ? [one, other] : [other, one + 1]
        const width = WIDTHS[name]
        const query = { interval: name, start: new Date(start).toISOString(), end: new Date(end).toISOString() }
        const window = windowOf(query, NOW)
        const kept = (bucket: number) => bucket + width > NOW - KEPT_DAYS[name] * DAY_MS
        const expected = bucketsWhere(width, bucket => bucket >= start && bucket < end && bucket < NOW && kept(bucket))
        expect(bucketsOf(window)).to.deep.equal(expected)
        expect(window.start % width).to.equal(0)
        expect(window.end % width).to.equal(0)
        expect(window.shownEnd).to.equal(Math.min(end, NOW))
      }),
      { numRuns: 300 },
    )
  })

  it('of a lookback holds completed buckets alone; the newest hour is given a minute to settle', () => {
    fc.assert(
      fc.property(
        interval,
        fc.integer({ min: 1, max: 400 }),
        fc.constantFrom('', 'd', 'h'),
        moment,
        (name, n, unit, now) => {
          const width = WIDTHS[name]
          const window = windowOf(
            { interval: name, lookback: `${n}${unit}`, start: '2026-03-01', end: '2026-03-02' },
            now,
          )
          const settled = name === '1h' ? now - MINUTE_MS : now
          const completed = bucketsWhere(width, bucket => bucket + width <= settled)
          const lengthMs = n * (unit === 'h' ? 60 * MINUTE_MS : DAY_MS)
          const count = Math.ceil(lengthMs / width)
          const kept = completed.slice(-count).filter(bucket => bucket + width > now - KEPT_DAYS[name] * DAY_MS)
          expect(bucketsOf(window)).to.deep.equal(kept)
          expect(window.shownEnd).to.equal(window.end)
        },
      ),
      { numRuns: 300 },
    )
  })

  it('is a day of 5m, a week of 1h, a month of 1d, up to now, by default', () => {
    for (const [name, days] of [
      ['5m', 1],
      ['1h', 7],
      ['1d', 30],
    ] as const) {
      const window = windowOf({ interval: name }, NOW)
      expect(bucketsOf(window)).to.have.length((days * DAY_MS) / WIDTHS[name])
      expect(bucketsOf(window).at(-1)).to.equal(Math.floor(NOW / WIDTHS[name]) * WIDTHS[name])
    }
  })
})

describe('the tier of a candle request', () => {
  it('reads a fill as its query does', () => {
    const demand = (fill: string) => () => demandCandleTier({ fill }, loadTiers().starter)
    for (const fill of ['true', 'TRUE'])
      expect(demand(fill), fill).to.throw(HttpError).and.include({ code: 'FORBIDDEN_TIER' })
    for (const fill of ['false', '1', 'maybe']) expect(demand(fill), fill).not.to.throw()
  })
})

describe('the window of history', () => {
  it('is the last 14 days before its end, and never beyond the 35 days that are kept', () => {
    expect(historyWindow({}, NOW)).to.deep.equal({ start: NOW - 14 * DAY_MS, end: NOW })
    expect(historyWindow({ end: NOW - DAY_MS }, NOW)).to.deep.equal({ start: NOW - 15 * DAY_MS, end: NOW - DAY_MS })
    expect(historyWindow({ start: NOW - 20 * DAY_MS }, NOW)).to.deep.equal({ start: NOW - 20 * DAY_MS, end: NOW })
    expect(historyWindow({ start: NOW - 90 * DAY_MS }, NOW)).to.deep.equal({ start: NOW - 35 * DAY_MS, end: NOW })
  })
})
