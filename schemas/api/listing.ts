/**
 * GET /prices and GET /bids: the parameters and the answers of the live listings.
 *
 * Rules: DECISIONS.md, "Prices and bids". Invariant: prices are hundredths of the answer's
 * currency; the schema of a tier carries that tier's page size as bound and as default.
 */
import { z } from 'zod'
import { currency, integer, itemSelector, providerKey, repeated } from './query-values.ts'
import { amount, instant, offsetPagination } from './reply-values.ts'

/** What the parameters of a listing depend on. */
export interface ListingScope {
  /** The provider keys of the side. */
  providers: readonly string[]
  isCurrency: (code: string) => boolean
  /** Largest page of the tier, and its default. */
  pageMax: number
}

/** Parameters of GET /prices and GET /bids. */
export const listingQuery = (scope: ListingScope) =>
  z.object({
    ...itemSelector,
    providers: repeated(providerKey(scope.providers)).optional(),
    currency: currency(scope.isCurrency),
    limit: integer({ min: 1, max: scope.pageMax }).default(scope.pageMax),
    offset: integer({ min: 0 }).default(0),
  })

/** Parsed parameters of a listing. */
export type ListingQuery = z.infer<ReturnType<typeof listingQuery>>

const item = {
  provider: z.string(),
  item_id: z.int(),
  market_hash_name: z.string(),
  phase: z.string().nullable(),
}

const times = { timestamp: instant, last_updated: instant }

/** The lowest ask of a provider for an item; `url` is sent on pro and quant only. */
export const priceEntry = z.strictObject({
  ...item,
  lowest_ask: amount,
  lowest_ask_decimal: z.string(),
  quantity: z.int(),
  link: z.url(),
  url: z.url().optional(),
  ...times,
})

/** The highest buy order of a provider for an item. */
export const bidEntry = z.strictObject({
  ...item,
  highest_bid: amount,
  highest_bid_decimal: z.string(),
  num_bids: z.int(),
  ...times,
})

const meta = z.strictObject({
  currency: z.string(),
  /** The filters that were applied, and no others. */
  filters: z.strictObject({
    item_id: z.int().optional(),
    market_hash_name: z.string().optional(),
    phase: z.string().optional(),
    requested_providers: z.array(z.string()).optional(),
  }),
  providers_queried: z.array(z.string()),
  /** Providers of the entries of this page. */
  returned_providers: z.array(z.string()),
})

/** Answer of GET /prices. */
export const pricesReply = z.strictObject({ meta, items: z.array(priceEntry), pagination: offsetPagination })

/** Answer of GET /bids. */
export const bidsReply = z.strictObject({ meta, items: z.array(bidEntry), pagination: offsetPagination })

/** The `meta` of a listing. */
export type ListingMeta = z.infer<typeof meta>
