import { expect } from 'chai'
import fc from 'fast-check'
import {
  minorDigits,
  minorToDecimal,
  parseRate,
  type Rate,
  toDecimal,
  toMicroUsd,
  toMinor,
  toUsdText,
} from '#schemas/values/money.ts'
import { expand, fractionOf, withPoint } from '#test/oracles/exact-amounts.ts'

const rateOf = (text: string): Rate => {
  const rate = parseRate(text)
  if (!rate) throw new Error(`not a rate: ${text}`)
  return rate
}

/** Rates as sources print them, and simple ones that make ties. */
const rateText = fc
  .oneof(
    {
      weight: 4,
      arbitrary: fc.tuple(fc.nat(99_999_999), fc.stringMatching(/^\d{1,16}$/)).map(([a, b]) => `${a}.${b}`),
    },
    {
      weight: 2,
      arbitrary: fc.constantFrom('1', '0.5', '0.25', '2', '3', '7.5', '0.125', '85679508184.0193', '0.000012017405'),
    },
    {
      weight: 1,
      arbitrary: fc
        .tuple(fc.integer({ min: 1, max: 9999 }), fc.integer({ min: -9, max: 6 }))
        .map(([a, e]) => `${a}e${e}`),
    },
  )
  .filter(text => /[1-9]/.test(text.split(/e/)[0] ?? ''))

const micro = fc.oneof(
  fc.integer({ min: 0, max: 100_000_000 }),
  fc.integer({ min: 0, max: 2_000_000 }).map(n => n * 5_000),
  fc.maxSafeInteger().map(Math.abs),
)

const RUNS = { numRuns: 3_000 }

describe('money', () => {
  it('converts micro-dollars to hundredths as the exact value rounds, halves up', () => {
    fc.assert(
      fc.property(micro, rateText, (amount, text) => {
        const { over, under } = fractionOf(text)
        const exact = expand({ over: BigInt(amount) * over, under: under * 10_000n }, 0)
        expect(minorDigits(amount, rateOf(text))).to.equal(exact.toString())
        if (exact <= BigInt(Number.MAX_SAFE_INTEGER)) expect(toMinor(amount, rateOf(text))).to.equal(Number(exact))
        else expect(() => toMinor(amount, rateOf(text))).to.throw(RangeError)
      }),
      RUNS,
    )
  })

  it('converts hundredths to micro-dollars as the exact value rounds, halves up', () => {
    fc.assert(
      fc.property(micro, rateText, (minor, text) => {
        const { over, under } = fractionOf(text)
        const exact = expand({ over: BigInt(minor) * under * 10_000n, under: over }, 0)
        if (exact <= BigInt(Number.MAX_SAFE_INTEGER)) expect(toMicroUsd(minor, rateOf(text))).to.equal(Number(exact))
        else expect(() => toMicroUsd(minor, rateOf(text))).to.throw(RangeError)
      }),
      RUNS,
    )
  })

  it('writes decimals with two places where the exact value is 1 or more, else with eight', () => {
    fc.assert(
      fc.property(micro, rateText, (amount, text) => {
        const { over, under } = fractionOf(text)
        const exact = { over: BigInt(amount) * over, under: under * 1_000_000n }
        const places = exact.over >= exact.under ? 2 : 8
        expect(toDecimal(amount, rateOf(text))).to.equal(withPoint(expand(exact, places), places))
      }),
      RUNS,
    )
  })

  it('rounds halves up where a double cannot represent the half', () => {
    const odd = (max: number) => fc.nat(Math.floor(max / 2)).map(n => 2 * n + 1)
    fc.assert(
      fc.property(odd(99_999_999), odd(9_999), fc.integer({ min: 1, max: 8 }), (digits, times, places) => {
        // micro x rate / 10^4 is digits x times / 2, and both are odd.
        const amount = 5 * 10 ** (3 + places) * times
        const rate = rateOf(withPoint(BigInt(digits), places))
        const exact = (BigInt(digits) * BigInt(times) + 1n) / 2n
        expect(minorDigits(amount, rate)).to.equal(exact.toString())
      }),
      RUNS,
    )
  })

  it('switches places exactly at 1', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1_000_000 }), fc.integer({ min: -2, max: 2 }), (scale, step) => {
        // amount x rate lies `step` parts in 10^12 beside 1.
        const rate = { over: 10n ** 18n / BigInt(scale) + BigInt(step), under: 10n ** 12n }
        const text = withPoint(rate.over, 12)
        const exact = { over: BigInt(scale) * rate.over, under: rate.under * 1_000_000n }
        const places = exact.over >= exact.under ? 2 : 8
        expect(toDecimal(scale, rateOf(text))).to.equal(withPoint(expand(exact, places), places))
      }),
      RUNS,
    )
  })

  it('writes hundredths in the same form, and dollars with two places always', () => {
    fc.assert(
      fc.property(fc.nat(10_000_000), fc.maxSafeInteger().map(Math.abs), (minor, amount) => {
        const places = minor >= 100 ? 2 : 8
        const exact = { over: BigInt(minor), under: 100n }
        expect(minorToDecimal(minor)).to.equal(withPoint(expand(exact, places), places))
        expect(toUsdText(amount)).to.equal(withPoint(expand({ over: BigInt(amount), under: 1_000_000n }, 2), 2))
      }),
      RUNS,
    )
  })

  it('parses every digit of a rate and refuses what is none', () => {
    fc.assert(
      fc.property(rateText, text => {
        const { over, under } = fractionOf(text)
        const { numerator, denominator } = rateOf(text)
        expect(numerator * under).to.equal(over * denominator)
      }),
    )
    for (const text of ['', '0', '0.0', '-1', '1.', '.5', '1e', 'NaN', 'Infinity', '0x10', '1,5', ' 1', '1e999']) {
      expect(parseRate(text), text).to.equal(undefined)
    }
  })
})
