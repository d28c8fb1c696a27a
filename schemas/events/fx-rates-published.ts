/**
 * Exchange rates to the US dollar (market.fx), all of them in each event.
 *
 * Key: `USD`. Rates are decimal texts with all digits of their source. An event replaces the one before it; readers that
 * need past rates store them by day.
 */
import { defineEvent } from './event.ts'

/** Units of each currency per one US dollar. */
export interface FxRatesPublished {
  /** The time of the rates at their source. */
  as_of: number
  source: string
  /** ISO 4217 code or upper-case crypto code → decimal text; USD is `1`. */
  rates: Record<string, string>
}

export const fxRatesPublished = defineEvent<FxRatesPublished>(
  'FxRatesPublished',
  1,
  'A source published its exchange rates.',
  { as_of: 'long', source: 'string', rates: { type: 'map', values: 'string' } },
)
