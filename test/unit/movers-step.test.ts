import { expect } from 'chai'
import fc from 'fast-check'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '#schemas/values/instant.ts'
import { boundsOf, findMovers } from '#streams/movers/step.ts'
import { decodeMovers, encodeMovers, MOVERS_WINDOWS, WINDOW_NAMES } from '#streams/movers/table.ts'

const AT = Date.UTC(2026, 2, 5, 14, 37, 12, 345)

const listed = (item_id: number, lowest: number, providers = 2) => ({ item_id, lowest, providers, newest: 0 })
const moversOf = (asks: Parameters<typeof findMovers>[0], before: [number, number][], units = (_: number) => 0) =>
  findMovers(asks, { before: new Map(before), units })

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
  it('come with both prices, their providers and units', () => {
    expect(moversOf([listed(7, 150, 3)], [[7, 100]], itemId => itemId * 2)).to.deep.equal([
      { itemId: 7, ask: 150, before: 100, providers: 3, units: 14 },
    ])
  })

  it('are not items without a price at the start, without one now, or with the same', () => {
    const asks = [listed(1, 100), listed(2, 0), listed(3, 100), listed(4, 101)]
    const before: [number, number][] = [
      [2, 100],
      [3, 100],
      [4, 100],
      [5, 100],
    ]
    expect(moversOf(asks, before).map(({ itemId }) => itemId)).to.deep.equal([4])
  })

  it('are ordered by their change in percent, up or down, and by item id where it is the same', () => {
    // A fall by half, a rise by half twice over, by a third in two ways, and by a thousandth of a large price.
    const asks = [listed(9, 50), listed(4, 300), listed(3, 3), listed(8, 4), listed(6, 400_000), listed(1, 1_001_000)]
    const before: [number, number][] = [
      [9, 100],
      [4, 200],
      [3, 2],
      [8, 3],
      [6, 300_000],
      [1, 1_000_000],
    ]
    expect(moversOf(asks, before).map(({ itemId }) => itemId)).to.deep.equal([3, 4, 9, 6, 8, 1])
  })

  it('are stored and read as they are, and refused when they are cut off', () => {
    const movers = moversOf(
      [listed(2 ** 32 - 1, 2 ** 52, 41), listed(2, 1)],
      [
        [2 ** 32 - 1, 2 ** 51],
        [2, 3],
      ],
    )
    expect(decodeMovers(encodeMovers(movers))).to.deep.equal(movers)
    expect(decodeMovers(encodeMovers([]))).to.deep.equal([])
    expect(() => decodeMovers(encodeMovers(movers).subarray(8))).to.throw('cut off')
  })
})
