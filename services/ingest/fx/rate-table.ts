/**
 * A table of exchange rates: units of each currency per US dollar, with all digits of its source.
 *
 * Reads the currency-api's shape `{date, usd: {code: rate}}`. Invariant: a rate keeps the text of its source and is never
 * formatted again; USD is `1`; codes that the platform does not support and invalid rates are left out.
 */
import type { FxRatesPublished } from '#schemas/events/fx-rates-published.ts'
import { parseInstant } from '#schemas/values/instant.ts'
import { parseRate, type Rate, USD_RATE } from '#schemas/values/money.ts'

export type RateTable = ReturnType<typeof rateTable>

/** Makes a table of decimal texts by code; the US dollar is always in it. */
export function rateTable(asOf: number, source: string, texts: ReadonlyMap<string, string>) {
  const rates = new Map<string, Rate>([['USD', USD_RATE]])
  for (const [code, text] of [...texts].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const rate = parseRate(text)
    if (rate && code !== 'USD') rates.set(code, rate)
  }
  const event: FxRatesPublished = {
    as_of: asOf,
    source,
    rates: Object.fromEntries([...rates].map(([code, rate]) => [code, rate.text])),
  }
  return {
    /** When its source says that it was in force. */
    asOf,
    source,
    event,
    /** The rate of a currency code in capitals; undefined when the source has none. */
    rateOf: (currency: string): Rate | undefined => rates.get(currency),
  }
}

/** Reads a source's text; throws an Error when it does not have the shape or lacks a usable rate. */
export function parseRateTable(text: string, source: string, codes: Iterable<string>): RateTable {
  const parsed = JSON.parse(text, keepDigits as Parameters<typeof JSON.parse>[1])
  const asOf = parseInstant(String(parsed?.date))
  const quoted: Record<string, unknown> = parsed?.usd ?? {}
  if (asOf === undefined) throw new Error(`exchange rates of ${source} have no date`)
  const texts = new Map<string, string>()
  for (const code of codes) {
    const rate = Object.hasOwn(quoted, code.toLowerCase()) ? quoted[code.toLowerCase()] : undefined
    if (typeof rate === 'string') texts.set(code, rate)
  }
  if (texts.size < 2) throw new Error(`exchange rates of ${source} hold none of the platform's currencies`)
  return rateTable(asOf, source, texts)
}

/** A reviver that leaves numbers as the text they were; the third argument is newer than the library's declarations. */
const keepDigits = (_member: string, value: unknown, context: { source: string }): unknown =>
  typeof value === 'number' ? context.source : value
