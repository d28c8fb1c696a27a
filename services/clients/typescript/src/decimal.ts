/** Hundredths of any currency as exact text: 4358 is "43.58". */
export function toDecimal(hundredths: number | bigint): string {
  if (typeof hundredths === 'number' && !Number.isSafeInteger(hundredths))
    throw new RangeError(`${hundredths} is no whole number of hundredths`)
  const digits = String(hundredths).replace('-', '').padStart(3, '0')
  return `${hundredths < 0 ? '-' : ''}${digits.slice(0, -2)}.${digits.slice(-2)}`
}
