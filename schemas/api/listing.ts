/** Rules: DECISIONS.md, "Prices and bids" and "Bulk snapshots". Prices are hundredths of the answer's currency. */
import { z } from 'zod'
import { currency, integer, itemSelector, type MarketScope, pageOffset, providersParameter } from './query-values.ts'
import { amount, currencyName, instant, itemMembers, offsetPages, providerName } from './reply-values.ts'

export const listingQuery = (scope: MarketScope & { pageMax: number }) =>
  z.object({
    ...itemSelector,
    providers: providersParameter(scope.providers),
    currency: currency(scope.isCurrency),
    limit: integer({ min: 1, max: scope.pageMax }).default(scope.pageMax).meta({
      description: 'Entries of a page: at most and by default 100 on free, 1000 above.',
      example: 50,
    }),
    offset: pageOffset(),
  })

export type ListingQuery = z.infer<ReturnType<typeof listingQuery>>

/** Parameters of a bulk snapshot; `providers` are the keys of its side. */
export const snapshotQuery = (providers: readonly string[]) => z.object({ providers: providersParameter(providers) })

export const redirectParams = z.object({
  provider: z.string().meta({ description: 'One provider key.', example: 'provider_02' }),
  item_id: integer({ min: 1 }).meta({ description: 'Catalog id of the item.', example: 4940 }),
})

/** When the price or the quantity last changed, and when the provider was last refreshed. */
const quoteTimes = {
  timestamp: instant.meta({ example: '2026-03-03T21:34:30.549Z' }),
  last_updated: instant.meta({ example: '2026-03-03T21:40:02.000Z' }),
}

const askMembers = {
  lowest_ask: amount.meta({ example: 2931 }),
  lowest_ask_decimal: z.string().meta({ example: '29.31' }),
  quantity: z.int().meta({ example: 14 }),
}

const bidMembers = {
  highest_bid: amount.meta({ example: 2710 }),
  highest_bid_decimal: z.string().meta({ example: '27.10' }),
  num_bids: z.int().meta({ example: 6 }),
}

/** The lowest ask of a provider for an item that is named elsewhere, and the highest buy order. */
export const askQuote = z.strictObject({ provider: providerName, ...askMembers, ...quoteTimes })
export const bidQuote = z.strictObject({ provider: providerName, ...bidMembers, ...quoteTimes })

export const priceEntry = z.strictObject({
  provider: providerName,
  ...itemMembers,
  ...askMembers,
  link: z.url().meta({ example: 'https://api.example.com/r/provider_02/4940' }),
  url: z.url().optional().describe('Where `link` leads; on pro and quant only. Absent where `link` is a 404.'),
  ...quoteTimes,
})

export const bidEntry = z.strictObject({ provider: providerName, ...itemMembers, ...bidMembers, ...quoteTimes })

const meta = z
  .strictObject({
    currency: currencyName,
    filters: z
      .strictObject({
        item_id: z.int().optional(),
        market_hash_name: z.string().optional(),
        phase: z.string().optional(),
        requested_providers: z.array(z.string()).optional(),
      })
      .meta({
        description: 'The filters that were applied, and no others.',
        example: { item_id: 4940, requested_providers: ['provider_02'] },
      }),
    providers_queried: z.array(providerName),
    returned_providers: z.array(providerName).describe('Providers of the entries of this page.'),
  })
  .meta({ id: 'ListingMeta' })

export type ListingMeta = z.infer<typeof meta>

export const pricesReply = z.strictObject({ meta, items: z.array(priceEntry), pagination: offsetPages(100) })

export const bidsReply = z.strictObject({ meta, items: z.array(bidEntry), pagination: offsetPages(100) })
