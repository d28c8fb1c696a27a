import { expect } from 'chai'
import fc from 'fast-check'
import { type LiquidityFacts, scoreLiquidity } from '#streams/market-summary/liquidity.ts'

const facts: LiquidityFacts = {
  listings: 500,
  ask: 100,
  bid: 95,
  unitsConsumed: 200,
  hourlyCloses: [],
  external: { sales: 120, listings: 30, ask: 100, bid: 85 },
}

const FULL = { listing: 18, gap: 12, volume: 45, stability: null, external: 25 }

describe('liquidity', () => {
  /** The parts of the score that are not full, stability aside. */
  function scores(given: Partial<LiquidityFacts>, parts: Partial<Record<keyof typeof FULL, number | null>>): void {
    const found = scoreLiquidity({ ...facts, ...given })
    for (const [part, expected] of Object.entries({ ...FULL, ...parts })) {
      const actual = found[part as keyof typeof found]
      if (expected === null) expect(actual, part).to.equal(null)
      else expect(actual, part).to.be.closeTo(expected, 1e-9)
    }
  }

  it('full at their marks', () => scores({}, {}))
  it('no more beyond them', () => scores({ listings: 9_000, bid: 140, unitsConsumed: 9_000 }, {}))
  it('nothing at nothing', () =>
    scores(
      { listings: 0, bid: 50, unitsConsumed: 0, external: { sales: 0, listings: 0, ask: null, bid: null } },
      { listing: 0, gap: 0, volume: 0, external: 0 },
    ))
  it('no gap without a bid', () => scores({ bid: null }, { gap: 0 }))
  it('no stability into a full score', () =>
    scores({ hourlyCloses: Array.from({ length: 24 }, () => 7) }, { stability: 0 }))
  it('full stability of 24 equal closes', () =>
    scores({ unitsConsumed: 0, hourlyCloses: Array.from({ length: 24 }, () => 7) }, { volume: 0, stability: 8 }))
  it('a quarter of the closes, half as steady as may be', () =>
    scores({ unitsConsumed: 0, hourlyCloses: [90, 110, 90, 110, 90, 110] }, { volume: 0, stability: 3 }))
  it('one close is no history', () => scores({ hourlyCloses: [5] }, {}))
  it('nothing from references that cannot be read', () => scores({ external: undefined }, { external: null }))
  it('nothing at all without ask and bid', () =>
    scores({ ask: null, bid: null }, { listing: null, gap: null, volume: null, external: null }))

  it('stays within its bounds whatever comes', () =>
    fc.assert(
      fc.property(
        fc.nat(100_000),
        fc.nat(100_000),
        fc.integer({ min: 1, max: 1e9 }),
        fc.integer({ min: 1, max: 1e9 }),
        fc.array(fc.integer({ min: 1, max: 1e9 }), { maxLength: 24 }),
        (listings, unitsConsumed, ask, bid, hourlyCloses) => {
          const { listing, gap, volume, stability, external } = scoreLiquidity({
            ...facts,
            listings,
            unitsConsumed,
            ask,
            bid,
            hourlyCloses,
          })
          expect(listing).to.be.within(0, 18)
          expect(gap).to.be.within(0, 12)
          expect(volume).to.be.within(0, 45)
          if (stability !== null) expect(stability).to.be.within(0, 8)
          const sum = [listing, gap, volume, stability, external].reduce<number>((all, part) => all + (part ?? 0), 0)
          expect(sum).to.be.at.most(100 + 1e-9)
        },
      ),
    ))
})
