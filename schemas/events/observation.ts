/**
 * Events of market.quotes and market.bids: what providers report, unchanged.
 *
 * A refresh is its observations with a running `index` from 0, then RefreshCompleted with their count. A second attempt
 * at the same refresh starts again at index 0, and a gap in the index proves that an observation was lost, so `book` can
 * judge whether a refresh is complete. Prices are hundredths of `currency`; `observed_at` is the provider's time.
 */
import { defineEvent, nullable } from './event.ts'

/** The lowest ask, or the highest bid, that a provider shows for a name at one moment. */
export interface Observation {
  provider: string
  /** The refresh it belongs to; null from a provider that pushes single observations. */
  refresh_id: string | null
  /** Position inside its refresh, from 0 without gaps; 0 for a pushed one. */
  index: number
  market_hash_name: string
  phase: string | null
  /** Hundredths of `currency`; null from a pushing provider withdraws the item. */
  price: number | null
  currency: string
  /** Units of `currency` per US dollar, only on pushed observations (a refresh carries it once). */
  usd_rate: string | null
  quantity: number
  url: string | null
  observed_at: number
}

const observationFields = {
  provider: 'string',
  refresh_id: nullable('string'),
  index: 'int',
  market_hash_name: 'string',
  phase: nullable('string'),
  price: nullable('long'),
  currency: 'string',
  usd_rate: nullable('string'),
  quantity: 'int',
  url: nullable('string'),
  observed_at: 'long',
} as const

/** A provider's ask for one name; quantity is the listings at or near it. */
export const askObserved = defineEvent<Observation>(
  'AskObserved',
  1,
  "A provider's lowest ask for one name.",
  observationFields,
)

/** A provider's highest buy order for one name; quantity is its number of buy orders. */
export const bidObserved = defineEvent<Observation>(
  'BidObserved',
  1,
  "A provider's highest buy order for one name.",
  observationFields,
)

/** An entry of a refresh that holds no usable price; it keeps its index so that the refresh stays countable. */
export interface ObservationRejected {
  provider: string
  refresh_id: string | null
  index: number
  market_hash_name: string | null
  /** The entry as it was received, JSON text, cut at 2,000 characters. */
  raw: string
  reason: string
  observed_at: number
}

export const observationRejected = defineEvent<ObservationRejected>(
  'ObservationRejected',
  1,
  'An entry of a refresh without a usable price.',
  {
    provider: 'string',
    refresh_id: nullable('string'),
    index: 'int',
    market_hash_name: nullable('string'),
    raw: 'string',
    reason: 'string',
    observed_at: 'long',
  },
)

/** The end of a refresh: `book` may judge and apply it. */
export interface RefreshCompleted {
  provider: string
  refresh_id: string
  observed_at: number
  /** Entries of the refresh, rejected ones included. */
  count: number
  currency: string
  /** Units of `currency` per US dollar that ingest knew, as decimal text. */
  usd_rate: string
}

export const refreshCompleted = defineEvent<RefreshCompleted>(
  'RefreshCompleted',
  1,
  'Every entry of a refresh has been published.',
  {
    provider: 'string',
    refresh_id: 'string',
    observed_at: 'long',
    count: 'int',
    currency: 'string',
    usd_rate: 'string',
  },
)

/** A refresh that could not be fetched or read; the last good book stays. */
export interface RefreshFailed {
  provider: string
  observed_at: number
  /** Machine-readable: `timeout`, `http_status`, `truncated`, `unknown_currency`, … */
  reason: string
  detail: string
}

export const refreshFailed = defineEvent<RefreshFailed>('RefreshFailed', 1, 'A refresh could not be fetched or read.', {
  provider: 'string',
  observed_at: 'long',
  reason: 'string',
  detail: 'string',
})
