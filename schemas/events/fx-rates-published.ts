/**
 * Exchange rates to the US dollar (market.fx), all of them in each event.
 *
 * Key: `USD`. Rates are decimal texts with all digits of their source. An event replaces the one before it; readers that
 * need past rates store them by day.
 */
import { defineEvent, type EventValue } from './event.ts'

export const fxRatesPublished = defineEvent('FxRatesPublished', 1, 'A source published its exchange rates.', {
  /** The time of the rates at their source. */
  as_of: 'long',
  source: 'string',
  /** ISO 4217 code or upper-case crypto code → units per US dollar as decimal text; USD is `1`. */
  rates: { type: 'map', values: 'string' },
})

export type FxRatesPublished = EventValue<typeof fxRatesPublished>
