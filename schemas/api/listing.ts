/**
 * The live listings GET /prices and GET /bids, and their bulk snapshots POST /prices and POST /bids, which are one
 * entry a line. Rules: DECISIONS.md, "Prices and bids" and "Bulk snapshots". Prices are hundredths of the reply's
 * currency.
 */
import { z } from 'zod'
import { currency, integer, itemSelector, type MarketScope, pageOffset, providersParameter } from './query-values.ts'
import { amount, exampleItem, examplePage, instant, itemMembers, offsetPagination } from './reply-values.ts'

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
  item_id: integer({ min: 1 }).meta({ description: 'Catalog id of the item.', example: exampleItem.item_id }),
})

/** When the price or the quantity last changed, and when the provider was last refreshed. */
export const quoteTimes = { timestamp: instant, last_updated: instant }

/** Price and quantity of an ask. */
export const askMembers = { lowest_ask: amount, lowest_ask_decimal: z.string(), quantity: z.int() }

/** Price and quantity of a buy order. */
export const bidMembers = { highest_bid: amount, highest_bid_decimal: z.string(), num_bids: z.int() }

/** A provider's ask in examples. */
export const exampleAsk = { lowest_ask: 2931, lowest_ask_decimal: '29.31', quantity: 14 }

/** A provider's buy order in examples. */
export const exampleBid = { highest_bid: 2710, highest_bid_decimal: '27.10', num_bids: 6 }

/** The times of a quote in examples. */
export const exampleTimes = { timestamp: '2026-03-03T21:34:30.549Z', last_updated: '2026-03-03T21:40:02.000Z' }

const examplePriceEntry = {
  provider: 'provider_02',
  ...exampleItem,
  ...exampleAsk,
  link: 'https://api.example.com/r/provider_02/4940',
  ...exampleTimes,
}

const exampleBidEntry = { provider: 'provider_02', ...exampleItem, ...exampleBid, ...exampleTimes }

/** The lowest ask of a provider for an item. */
export const priceEntry = z
  .strictObject({
    provider: z.string(),
    ...itemMembers,
    ...askMembers,
    link: z.url(),
    url: z.url().optional().describe('Where `link` leads; on pro and quant only. Absent where `link` is a 404.'),
    ...quoteTimes,
  })
  .meta({ example: examplePriceEntry })

/** The highest buy order of a provider for an item. */
export const bidEntry = z
  .strictObject({ provider: z.string(), ...itemMembers, ...bidMembers, ...quoteTimes })
  .meta({ example: exampleBidEntry })

const meta = z
  .strictObject({
    currency: z.string(),
    filters: z
      .strictObject({
        item_id: z.int().optional(),
        market_hash_name: z.string().optional(),
        phase: z.string().optional(),
        requested_providers: z.array(z.string()).optional(),
      })
      .describe('The filters that were applied, and no others.'),
    providers_queried: z.array(z.string()),
    returned_providers: z.array(z.string()).describe('Providers of the entries of this page.'),
  })
  .meta({ id: 'ListingMeta' })

const exampleMeta = {
  currency: 'USD',
  filters: { item_id: exampleItem.item_id, requested_providers: ['provider_02'] },
  providers_queried: ['provider_02'],
  returned_providers: ['provider_02'],
}

export const pricesReply = z
  .strictObject({ meta, items: z.array(priceEntry), pagination: offsetPagination })
  .meta({ example: { meta: exampleMeta, items: [examplePriceEntry], pagination: examplePage(100) } })

export const bidsReply = z
  .strictObject({ meta, items: z.array(bidEntry), pagination: offsetPagination })
  .meta({ example: { meta: exampleMeta, items: [exampleBidEntry], pagination: examplePage(100) } })

export type ListingMeta = z.infer<typeof meta>
