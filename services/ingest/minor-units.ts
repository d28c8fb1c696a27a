/**
 * Exact conversion of a provider's decimal prices to hundredths: the exact value times 100, rounded once. Digits are moved as text; a
 * number that JSON has parsed counts by its shortest text, which is the provider's own for up to 15 digits.
 */

export type Rounding = 'half-up' | 'up' | 'down'

const DECIMAL = /^([+-]?)(\d{0,30})(?:\.(\d{0,30}))?(?:[eE]([+-]?\d{1,2}))?$/

/** Hundredths of a decimal in major units (`"1234.565"` → 123457); undefined when it is no decimal or beyond 2^53. */
export function minorUnits(amount: unknown, rounding: Rounding = 'half-up'): number | undefined {
  if (typeof amount !== 'number' && typeof amount !== 'string') return undefined
  const match = DECIMAL.exec(typeof amount === 'string' ? amount.trim() : String(amount))
  const [, sign, whole = '', fraction = '', exponent = '0'] = match ?? []
  if (!match || whole + fraction === '') return undefined
  const digits = BigInt(whole + fraction)
  const places = fraction.length - Number(exponent) - 2
  const magnitude = places <= 0 ? digits * 10n ** BigInt(-places) : ROUND[rounding](digits, 10n ** BigInt(places))
  const minor = Number(sign === '-' ? -magnitude : magnitude)
  return Number.isSafeInteger(minor) ? minor + 0 : undefined
}

const ROUND: Record<Rounding, (digits: bigint, divisor: bigint) => bigint> = {
  'half-up': (digits, divisor) => (2n * digits + divisor) / (2n * divisor),
  up: (digits, divisor) => (digits + divisor - 1n) / divisor,
  down: (digits, divisor) => digits / divisor,
}
