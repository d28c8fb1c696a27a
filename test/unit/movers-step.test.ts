import { expect } from 'chai'
import fc from 'fast-check'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '#schemas/values/instant.ts'
import { boundsOf } from '#streams/movers/step.ts'
import { decodeMovers, encodeMovers, MOVERS_WINDOWS, WINDOW_NAMES } from '#streams/movers/table.ts'

const AT = Date.UTC(2026, 2, 5, 14, 37, 12, 345)

describe('the windows of movers', () => {
  it('begin at five minutes for an hour and a day, and at a full hour for a week', () => {
    expect(WINDOW_NAMES.map(window => boundsOf(window, AT).since)).to.deep.equal([
      Date.UTC(2026, 2, 5, 13, 35),
      Date.UTC(2026, 2, 4, 14, 35),
      Date.UTC(2026, 1, 26, 14),
    ])
  })

  it('are never shorter than their names, nor longer by a bucket', () => {
    fc.assert(
      fc.property(fc.integer({ min: 30 * DAY_MS, max: 2 ** 42 }), fc.constantFrom(...WINDOW_NAMES), (asOf, window) => {
        const { ms, bucketMs } = MOVERS_WINDOWS[window]
        expect(asOf - boundsOf(window, asOf).since).to.be.within(ms, ms + bucketMs - 1)
      }),
    )
  })

  it('sum once what is an hour old, and have one such sum for each start', () => {
    for (const window of WINDOW_NAMES) {
      const bounds = boundsOf(window, AT)
      expect(AT - bounds.settled).to.be.within(HOUR_MS, 2 * HOUR_MS)
      for (let at = AT; at < AT + 3 * HOUR_MS; at += MINUTE_MS) {
        const later = boundsOf(window, at)
        if (later.since === bounds.since) expect(later).to.deep.equal(bounds)
      }
    }
    expect(boundsOf('1h', AT).settled).to.equal(boundsOf('1h', AT).since)
  })
})

describe('movers', () => {
  it('are refused when they are cut off', () => {
    const mover = { itemId: 2 ** 32 - 1, ask: 2 ** 52, before: 2 ** 51, providers: 41, units: 0 }
    expect(decodeMovers(encodeMovers([mover]))).to.deep.equal([mover])
    expect(() => decodeMovers(encodeMovers([mover]).subarray(8))).to.throw('cut off')
  })
})
