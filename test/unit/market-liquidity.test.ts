/**
 * The parts of the liquidity score: fixed points of their formulas, their bounds, and what is missing.
 */
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

describe('liquidity', () => {
  const cases = [
    {
      name: 'full at their marks',
      given: {},
      parts: { listing: 18, gap: 12, volume: 45, stability: null, external: 25 },
    },
    {
      name: 'no more beyond them',
      given: { listings: 9_000, bid: 140, unitsConsumed: 9_000 },
      parts: { listing: 18, gap: 12, volume: 45, stability: null, external: 25 },
    },
    {
      name: 'nothing at nothing',
      given: { listings: 0, bid: 50, unitsConsumed: 0, external: { sales: 0, listings: 0, ask: null, bid: null } },
      parts: { listing: 0, gap: 0, volume: 0, stability: null, external: 0 },
    },
    {
      name: 'no gap without a bid',
      given: { bid: null },
      parts: { listing: 18, gap: 0, volume: 45, stability: null, external: 25 },
    },
    {
      name: 'no stability into a full score',
      given: { hourlyCloses: Array.from({ length: 24 }, () => 7) },
      parts: { listing: 18, gap: 12, volume: 45, stability: 0, external: 25 },
    },
    {
      name: 'full stability of 24 equal closes',
      given: { unitsConsumed: 0, hourlyCloses: Array.from({ length: 24 }, () => 7) },
      parts: { listing: 18, gap: 12, volume: 0, stability: 8, external: 25 },
    },
    {
      name: 'a quarter of the closes, half as steady as may be',
      given: { unitsConsumed: 0, hourlyCloses: [90, 110, 90, 110, 90, 110] },
      parts: { listing: 18, gap: 12, volume: 0, stability: 3, external: 25 },
    },
    {
      name: 'one close is no history',
      given: { hourlyCloses: [5] },
      parts: { listing: 18, gap: 12, volume: 45, stability: null, external: 25 },
    },
    {
      name: 'nothing from references that cannot be read',
      given: { external: undefined },
      parts: { listing: 18, gap: 12, volume: 45, stability: null, external: null },
    },
    {
      name: 'nothing at all without ask and bid',
      given: { ask: null, bid: null },
      parts: { listing: null, gap: null, volume: null, stability: null, external: null },
    },
  ]
  for (const { name, given, parts } of cases)
    it(name, () => {
      const scores = scoreLiquidity({ ...facts, ...given })
      for (const [part, expected] of Object.entries(parts)) {
        const actual = scores[part as keyof typeof scores]
        if (expected === null) expect(actual, part).to.equal(null)
        else expect(actual, part).to.be.closeTo(expected, 1e-9)
      }
    })

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
