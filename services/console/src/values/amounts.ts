/** Amounts are whole hundredths of their currency, for every currency. */

const formats = new Intl.NumberFormat('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 })
const percents = new Intl.NumberFormat('en', {
  signDisplay: 'exceptZero',
  maximumFractionDigits: 1,
  minimumFractionDigits: 1,
})
const counts = new Intl.NumberFormat('en')

/** 435812 of USD is `$4,358.12`; a currency without a sign of its own keeps its code: `CHF 4,358.12`. */
export function formatAmount(hundredths: number, currency: string): string {
  const sign = SIGNS[currency] ?? `${currency} `
  return `${hundredths < 0 ? '−' : ''}${sign}${formats.format(Math.abs(hundredths) / 100)}`
}

export const formatPercent = (percent: number): string => `${percents.format(percent).replace('-', '−')} %`

export const formatCount = (count: number): string => counts.format(count)

/** Dollars of a decimal text, as `price_diff_24h` has them, in hundredths. */
export const hundredthsOf = (dollars: string): number => Math.round(Number(dollars) * 100)

const SIGNS: Readonly<Record<string, string>> = {
  USD: '$',
  EUR: '€',
  GBP: '£',
  JPY: '¥',
  CNY: 'CN¥',
  KRW: '₩',
  INR: '₹',
  BRL: 'R$',
}
