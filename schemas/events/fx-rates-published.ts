/**
 * Exchange rates as events on market.fx: the whole table at one time, base US dollar.
 *
 * Key: `USD`. Rates keep all digits of their source as decimal text. A table replaces the one
 * before it; readers that need the past keep it by day.
 */
import { defineEvent } from './event.ts'

/** Units of each currency per one US dollar. */
export interface FxRatesPublished {
  /** When the source says that the rates were in force. */
  as_of: number
  source: string
  /** ISO 4217 code or crypto code in capitals → decimal text; USD is `1`. */
  rates: Record<string, string>
}

/** A source published its exchange rates. */
export const fxRatesPublished = defineEvent<FxRatesPublished>(
  'FxRatesPublished',
  1,
  'A source published its exchange rates.',
  { as_of: 'long', source: 'string', rates: { type: 'map', values: 'string' } },
)
