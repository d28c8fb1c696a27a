/**
 * A completed sale as the provider reports it (market.sales).
 *
 * `sale_id` is the provider's id, or a digest of the sale's members where it has none, so that a sale that two refreshes
 * report is one sale. The price is hundredths of `currency`.
 */
import { defineEvent, type EventValue, nullable } from './event.ts'

/** Of a charm without a pattern. Null in replies; here it would be a schema that earlier readers refuse. */
export const NO_PATTERN = -1

const sticker = {
  type: 'record',
  name: 'SaleSticker',
  fields: [
    { name: 'name', type: 'string' },
    { name: 'slot', type: 'int' },
    // 0 is pristine.
    { name: 'wear', type: 'double' },
  ],
} as const

const charm = {
  type: 'record',
  name: 'SaleCharm',
  fields: [
    { name: 'name', type: 'string' },
    { name: 'pattern_id', type: 'int' },
  ],
} as const

export const saleObserved = defineEvent('SaleObserved', 1, 'A provider reports a completed sale.', {
  provider: 'string',
  sale_id: 'string',
  market_hash_name: 'string',
  phase: nullable('string'),
  price: 'long',
  currency: 'string',
  /** Units of `currency` per US dollar that ingest knew. */
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

export type SaleObserved = EventValue<typeof saleObserved>
export type SaleSticker = NonNullable<SaleObserved['stickers']>[number]
export type SaleCharm = NonNullable<SaleObserved['charms']>[number]
