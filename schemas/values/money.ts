/**
 * Money: integer amounts, and the only file that converts currencies.
 *
 * Amounts of a currency are hundredths ("minor units") for every currency; stored USD amounts are integer micro-dollars.
 * Invariant: every result is the exact rational value rounded half up once. Floating point gives an estimate; exact
 * integer arithmetic decides whenever the estimate lies near a tie.
 */

export type Minor = number
/** Millionths of a US dollar. */
export type MicroUsd = number

/** Units of a currency per one US dollar, with all digits of its source. */
export interface Rate {
  readonly text: string
  /** The nearest double, for estimates only. */
  readonly approximate: number
  /** The exact value is numerator / denominator. */
  readonly numerator: bigint
  readonly denominator: bigint
}

const RATE_FORM = /^(\d{1,30})(?:\.(\d{1,40}))?(?:[eE]([+-]?\d{1,3}))?$/

/** Parses the decimal text of a positive rate (`7.1234`, `1.2e-7`); undefined when it is none. */
export function parseRate(text: string): Rate | undefined {
  const match = RATE_FORM.exec(text)
  if (!match) return undefined
  const exponent = Number(match[3] ?? 0) - (match[2]?.length ?? 0)
  const digits = BigInt(match[1] + (match[2] ?? ''))
  if (digits === 0n || Math.abs(exponent) > 60) return undefined
  return {
    text,
    approximate: Number(text),
    numerator: exponent > 0 ? digits * 10n ** BigInt(exponent) : digits,
    denominator: exponent < 0 ? 10n ** BigInt(-exponent) : 1n,
  }
}

export const USD_RATE: Rate = { text: '1', approximate: 1, numerator: 1n, denominator: 1n }

/**
 * Converts hundredths of a currency to micro-dollars, half up.
 *
 * micro = minor x 10^4 / rate. Takes any safe integer; throws RangeError when the result is none.
 */
export function toMicroUsd(minor: Minor, rate: Rate): MicroUsd {
  return rounded((minor * 10_000) / rate.approximate, () =>
    divideHalfUp(BigInt(minor) * 10_000n * rate.denominator, rate.numerator),
  )
}

/** Converts micro-dollars to hundredths of a currency, half up: minor = micro x rate / 10^4. */
export function toMinor(micro: MicroUsd, rate: Rate): Minor {
  return rounded((micro * rate.approximate) / 10_000, () => exactMinor(micro, rate))
}

/** Hundredths of a currency in hundredths of another, half up: both rates are units per US dollar. */
export function crossMinor(minor: bigint, from: Rate, to: Rate): bigint {
  return divideHalfUp(minor * to.numerator * from.denominator, to.denominator * from.numerator)
}

/** A share of an amount, half up: amount x part / whole. */
export function shareOf(amount: bigint, part: bigint, whole: bigint): bigint {
  return divideHalfUp(amount * part, whole)
}

/**
 * The digits of {@link toMinor}, whatever their number: hundredths of a currency with 10^11 units to the
 * dollar pass 2^53 at a price of 1000 dollars, and a listing in it must not fail for that.
 */
export function minorDigits(micro: MicroUsd, rate: Rate): string {
  const estimate = (micro * rate.approximate) / 10_000
  return String(estimate < EXACT_BELOW ? toMinor(micro, rate) : exactMinor(micro, rate))
}

/**
 * Writes micro-dollars as a decimal text in major units of a currency with adaptive precision: two
 * places at or above 1, eight below (the exact value decides), halves up.
 *
 * Listings show thousands of them, so the exact comparison is left to amounts that lie near 1.
 */
export function toDecimal(micro: MicroUsd, rate: Rate): string {
  const major = (micro * rate.approximate) / 1_000_000
  if (major > 1.000_001) return place(minorDigits(micro, rate), 2)
  if (major < 0.999_999 && major >= 0) {
    const scaled = rounded(micro * rate.approximate * 100, () =>
      divideHalfUp(BigInt(micro) * rate.numerator * 100n, rate.denominator),
    )
    return place(String(scaled), 8)
  }
  return fixed(BigInt(micro) * rate.numerator, 1_000_000n * rate.denominator)
}

/** Writes hundredths of a currency in the same form as {@link toDecimal}. */
export function minorToDecimal(minor: Minor): string {
  return minor >= 100 ? place(String(minor), 2) : place(String(minor * 1_000_000), 8)
}

/** Writes micro-dollars as dollars with two decimal places, halves up, as analytics show them. */
export function toUsdText(micro: MicroUsd): string {
  return place(minorDigits(micro, USD_RATE), 2)
}

/**
 * An amount in hundred-millionths of a currency's major unit, rounded down and up: what decimal texts of eight
 * places are compared with exactly. Both are the same where the amount is whole.
 */
export function majorBounds(micro: MicroUsd, rate: Rate): { floor: bigint; ceiling: bigint } {
  const numerator = BigInt(micro) * rate.numerator * 100n
  const floor = numerator / rate.denominator
  return { floor, ceiling: floor * rate.denominator === numerator ? floor : floor + 1n }
}

/** Micro-dollars as hundredths of a currency; beyond 2^53 the nearest number, as JSON's readers would have it. */
export const convertedAmount = (micro: MicroUsd, rate: Rate): number => Number(minorDigits(micro, rate))

/** The price of a stored record in a currency: in its own what its provider sent, in any other converted at `rate`. */
export function recordAmount(
  record: { price: Minor; currency: string; price_micro_usd: MicroUsd },
  currency: string,
  rate: () => Rate,
): number {
  return record.currency === currency ? record.price : convertedAmount(record.price_micro_usd, rate())
}

function exactMinor(micro: MicroUsd, rate: Rate): bigint {
  return divideHalfUp(BigInt(micro) * rate.numerator, 10_000n * rate.denominator)
}

function fixed(numerator: bigint, denominator: bigint): string {
  const places = numerator >= denominator ? 2 : 8
  return place(String(divideHalfUp(numerator * 10n ** BigInt(places), denominator)), places)
}

function place(scaled: string, places: number): string {
  const sign = scaled.startsWith('-') ? '-' : ''
  const digits = scaled.slice(sign.length).padStart(places + 1, '0')
  return `${sign}${digits.slice(0, -places)}.${digits.slice(-places)}`
}

function divideHalfUp(numerator: bigint, denominator: bigint): bigint {
  const doubled = 2n * numerator + denominator
  const quotient = doubled / (2n * denominator)
  return doubled < 0n && quotient * 2n * denominator !== doubled ? quotient - 1n : quotient
}

/** Estimates above it are left to exact arithmetic. */
const EXACT_BELOW = 2 ** 40

/**
 * A double carries 53 bits and two operations lose at most one unit each, so below 2^40 the error
 * of the estimate stays under 0.001: only near a tie, or above, does the exact path decide. The
 * short path is 20 times faster and taken for all but one in 500 amounts.
 */
function rounded(estimate: number, exact: () => bigint): number {
  const distance = Math.abs(estimate - Math.floor(estimate) - 0.5)
  if (Math.abs(estimate) < EXACT_BELOW && distance > 0.001) return Math.round(estimate)
  const value = Number(exact())
  if (!Number.isSafeInteger(value)) throw new RangeError('amount is beyond 2^53 units')
  return value
}
