/**
 * A completed sale as the provider reports it (market.sales).
 *
 * `sale_id` is the provider's id, or a digest of the sale's members where it has none, so that a sale that two refreshes
 * report is one sale. The price is hundredths of `currency`.
 */
import { type AvroType, defineEvent, nullable } from './event.ts'

/** A sticker on a sold item; wear 0 is pristine. */
export interface SaleSticker {
  name: string
  slot: number
  wear: number
}

export interface SaleCharm {
  name: string
  /** {@link NO_PATTERN} where the provider gives none. */
  pattern_id: number
}

/** Null in replies; here it would be a schema that earlier readers refuse. */
export const NO_PATTERN = -1

/** A completed sale as a provider reports it. */
export interface SaleObserved {
  provider: string
  sale_id: string
  market_hash_name: string
  phase: string | null
  price: number
  currency: string
  /** Units of `currency` per US dollar that ingest knew. */
  usd_rate: string
  sold_at: number
  float: number | null
  paint_seed: number | null
  stickers: SaleSticker[] | null
  charms: SaleCharm[] | null
  inspect_in_game: string | null
  screenshot_front: string | null
  screenshot_back: string | null
  observed_at: number
}

const sticker: AvroType = {
  type: 'record',
  name: 'SaleSticker',
  fields: [
    { name: 'name', type: 'string' },
    { name: 'slot', type: 'int' },
    { name: 'wear', type: 'double' },
  ],
}

const charm: AvroType = {
  type: 'record',
  name: 'SaleCharm',
  fields: [
    { name: 'name', type: 'string' },
    { name: 'pattern_id', type: 'int' },
  ],
}

export const saleObserved = defineEvent<SaleObserved>('SaleObserved', 1, 'A provider reports a completed sale.', {
  provider: 'string',
  sale_id: 'string',
  market_hash_name: 'string',
  phase: nullable('string'),
  price: 'long',
  currency: 'string',
  usd_rate: 'string',
  sold_at: 'long',
  float: nullable('double'),
  paint_seed: nullable('int'),
  stickers: nullable({ type: 'array', items: sticker }),
  charms: nullable({ type: 'array', items: charm }),
  inspect_in_game: nullable('string'),
  screenshot_front: nullable('string'),
  screenshot_back: nullable('string'),
  observed_at: 'long',
})
