/**
 * Events of market.quotes and market.bids: what providers report, unchanged.
 *
 * A refresh is its observations with a running `index` from 0, then RefreshCompleted with their count. A second attempt
 * at the same refresh starts again at index 0, and a gap in the index proves that an observation was lost, so `book` can
 * judge whether a refresh is complete. Prices are hundredths of `currency`; `observed_at` is the provider's time.
 */
import { defineEvent, type EventValue, nullable } from './event.ts'

const observationFields = {
  provider: 'string',
  /** The refresh it belongs to; null from a provider that pushes single observations. */
  refresh_id: nullable('string'),
  /** Position inside its refresh, from 0 without gaps; 0 for a pushed one. */
  index: 'int',
  market_hash_name: 'string',
  phase: nullable('string'),
  /** Hundredths of `currency`; null from a pushing provider withdraws the item. */
  price: nullable('long'),
  currency: 'string',
  /** Units of `currency` per US dollar, only on pushed observations (a refresh carries it once). */
  usd_rate: nullable('string'),
  /** Listings at or near the ask, or buy orders. */
  quantity: 'int',
  url: nullable('string'),
  observed_at: 'long',
} as const

export const askObserved = defineEvent('AskObserved', 1, "A provider's lowest ask for one name.", observationFields)

export const bidObserved = defineEvent(
  'BidObserved',
  1,
  "A provider's highest buy order for one name.",
  observationFields,
)

/** The lowest ask, or the highest bid, that a provider shows for a name at one moment. */
export type Observation = EventValue<typeof askObserved>

/** An entry that holds no usable price keeps its index, so that the refresh stays countable. */
export const observationRejected = defineEvent(
  'ObservationRejected',
  1,
  'An entry of a refresh without a usable price.',
  {
    provider: 'string',
    refresh_id: nullable('string'),
    index: 'int',
    market_hash_name: nullable('string'),
    /** The entry as it was received, JSON text, cut at 2,000 characters. */
    raw: 'string',
    reason: 'string',
    observed_at: 'long',
  },
)

export type ObservationRejected = EventValue<typeof observationRejected>

/** The end of a refresh: `book` may judge and apply it. */
export const refreshCompleted = defineEvent('RefreshCompleted', 1, 'Every entry of a refresh has been published.', {
  provider: 'string',
  refresh_id: 'string',
  observed_at: 'long',
  /** Entries of the refresh, rejected ones included. */
  count: 'int',
  currency: 'string',
  /** Units of `currency` per US dollar that ingest knew, as decimal text. */
  usd_rate: 'string',
})

export type RefreshCompleted = EventValue<typeof refreshCompleted>

/** The last good book stays. */
export const refreshFailed = defineEvent('RefreshFailed', 1, 'A refresh could not be fetched or read.', {
  provider: 'string',
  observed_at: 'long',
  /** Machine-readable: `timeout`, `http_status`, `truncated`, `unknown_currency`, … */
  reason: 'string',
  detail: 'string',
})

export type RefreshFailed = EventValue<typeof refreshFailed>
