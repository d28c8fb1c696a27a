/**
 * The operations of the API: those of market data, and the lists of the other areas.
 *
 * What a schema cannot say is in schemas/api/DECISIONS.md. Request and reply schemas are those that
 * the routes parse with and that tests hold answers against; the API's description is made of this list and
 * of nothing else. Invariant: one entry per operation; a contract test holds it against the routes.
 */
import type { z } from 'zod'
import { accountKeyOperations } from './account-keys-operations.ts'
import { alertOperations } from './alerts-operations.ts'
import { batchBody, bidsBatchReply, pricesBatchReply } from './batch.ts'
import { candlesQuery, candlesReply } from './candles.ts'
import { imagesQuery, imagesReply, itemsMetadataReply, itemsQuery, itemsReply } from './catalog.ts'
import { feedOperations } from './feed-operations.ts'
import { historyQuery, historyReply } from './history.ts'
import { inventoryOperations } from './inventory-operations.ts'
import { bidEntry, bidsReply, listingQuery, priceEntry, pricesReply, redirectParams, snapshotQuery } from './listing.ts'
import { marketOperations } from './market-operations.ts'
import { ALL, get, json, type Operation, type OperationScope, PRO, post, type Reply, STARTER } from './operation.ts'
import { portfolioOperations } from './portfolio-operations.ts'
import { fxReply, providersQuery, providersReply } from './providers.ts'
import { salesQuery, salesReply } from './sales.ts'
import { signInOperations } from './sign-in-operations.ts'
import { webhookOperations } from './webhooks-operations.ts'

const streamOf = (name: string, schema: z.ZodType, description: string): Reply => ({
  ...json(name, schema, description),
  isStream: true,
  headers: STREAM_HEADERS,
})

const MONEY =
  'Amounts are integers in hundredths of the currency; `*_decimal` texts are exact for currencies of small value.'
const PHASES = 'A name alone stands for all phases of a finish: per provider the best price, quantities together.'
const STREAM_HEADERS = {
  'X-Snapshot-Timestamp': 'Moment of the snapshot, ISO 8601.',
  'X-Snapshot-Currency': 'Currency of all amounts: USD.',
  'X-Snapshot-Total': 'Number of lines.',
  ETag: 'Names the snapshot; sent as `If-None-Match`, an unchanged one is a 304 and no stream start.',
}
const STREAM =
  'One line per entry, fixed when the request begins. One stream per key at a time; the X-RateLimit headers tell the stream starts of a rolling day.'
const STREAM_ERRORS = ['STREAM_ALREADY_ACTIVE', 'RATE_LIMIT_STREAM_QUOTA_EXCEEDED'] as const

/** All operations. */
export function operationsOf(scope: OperationScope): Operation[] {
  return [
    ...pricesOperations(scope),
    ...bidsOperations(scope),
    ...catalogOperations(scope),
    ...marketOperations(scope),
    ...accountKeyOperations(scope.childKeys),
    ...signInOperations(),
    ...webhookOperations(),
    ...alertOperations(),
    ...portfolioOperations(scope),
    ...inventoryOperations(),
    ...feedOperations(scope),
  ]
}

const isCurrency = () => true

function pricesOperations({ askKeys: providers, saleKeys }: OperationScope): Operation[] {
  return [
    {
      ...get('listPrices', '/prices', 'Prices'),
      tiers: ALL,
      summary: 'Current lowest ask per provider and item',
      description: `${MONEY} ${PHASES} \`url\` is told on pro and quant only.`,
      query: listingQuery({ providers, isCurrency, pageMax: 1000 }),
      reply: json('PricesReply', pricesReply, 'A page of asks; empty when nobody lists the item.'),
      errors: ['ITEM_NOT_FOUND', 'PRICES_INDEX_UNAVAILABLE'],
    },
    {
      ...post('streamPrices', '/prices', 'Prices'),
      tiers: PRO,
      summary: 'All current asks as one stream',
      description: `${STREAM} ${MONEY}`,
      query: snapshotQuery(providers),
      reply: streamOf('PriceEntry', priceEntry, 'Price entries, one JSON object a line.'),
      errors: [...STREAM_ERRORS, 'PRICES_INDEX_UNAVAILABLE'],
    },
    {
      ...post('batchPrices', '/prices/batch', 'Prices'),
      tiers: STARTER,
      summary: 'Current lowest asks of up to 100 items',
      description: `By ids, names or both. ${PHASES} ${MONEY}`,
      body: batchBody({ providers, isCurrency }),
      reply: json('PricesBatchReply', pricesBatchReply, 'One entry per item that anybody lists.'),
      errors: ['PRICES_INDEX_UNAVAILABLE'],
    },
    {
      ...get('listCandles', '/prices/candles', 'Prices'),
      tiers: ALL,
      summary: 'OHLCV candles of the best ask over all providers',
      description:
        'One of `item_id` and `market_hash_name` is required. Kept for 7 days (5m), 30 days (1h) and 365 days (1d).',
      query: candlesQuery({ isCurrency, lookbackDaysMax: null }),
      reply: json('CandlesReply', candlesReply, 'Candles, oldest first; sparse without `fill`.'),
      errors: ['FORBIDDEN_TIER', 'ITEM_NOT_FOUND'],
    },
    {
      ...get('listHistory', '/prices/history', 'Prices'),
      tiers: PRO,
      summary: 'Observed asks of an item, newest first',
      description: 'One of `item_id` and `market_hash_name` is required. Reaches back 35 days; the last 14 by default.',
      query: historyQuery({ providers, isCurrency }),
      reply: json('HistoryReply', historyReply, 'A page of records.'),
      errors: ['ITEM_NOT_FOUND'],
    },
    {
      ...get('listSales', '/sales', 'Sales'),
      tiers: PRO,
      summary: 'Completed sales, newest first',
      description: 'Without an item the sales of all items.',
      query: salesQuery({ providers: saleKeys, isCurrency, pageMax: 1000 }),
      reply: json('SalesReply', salesReply, 'A page of sales.'),
      errors: ['ITEM_NOT_FOUND'],
    },
  ]
}

function bidsOperations({ bidKeys: providers }: OperationScope): Operation[] {
  return [
    {
      ...get('listBids', '/bids', 'Bids'),
      tiers: STARTER,
      summary: 'Current highest buy order per provider and item',
      description: `${MONEY} ${PHASES}`,
      query: listingQuery({ providers, isCurrency, pageMax: 1000 }),
      reply: json('BidsReply', bidsReply, 'A page of buy orders; empty when there is none.'),
      errors: ['ITEM_NOT_FOUND', 'BIDS_INDEX_UNAVAILABLE'],
    },
    {
      ...post('streamBids', '/bids', 'Bids'),
      tiers: STARTER,
      summary: 'All current buy orders as one stream',
      description: `${STREAM} ${MONEY}`,
      query: snapshotQuery(providers),
      reply: streamOf('BidEntry', bidEntry, 'Bid entries, one JSON object a line.'),
      errors: [...STREAM_ERRORS, 'BIDS_INDEX_UNAVAILABLE'],
    },
    {
      ...post('batchBids', '/bids/batch', 'Bids'),
      tiers: STARTER,
      summary: 'Current highest buy orders of up to 100 items',
      description: `By ids, names or both. ${PHASES} ${MONEY}`,
      body: batchBody({ providers, isCurrency }),
      reply: json('BidsBatchReply', bidsBatchReply, 'One entry per item that has a buy order.'),
      errors: ['BIDS_INDEX_UNAVAILABLE'],
    },
  ]
}

function catalogOperations({ askKeys }: OperationScope): Operation[] {
  return [
    {
      ...get('listItems', '/items', 'Catalog'),
      tiers: ALL,
      summary: 'The catalog, filtered',
      description:
        'Without `limit` all matches come in one answer. Categories go from class to kind: `item_type` (Weapon), `item_subtype` (Rifles), `weapon_type` (Assault Rifle), `base_name` (AK-47).',
      query: itemsQuery,
      reply: json('ItemsReply', itemsReply, 'Items by ascending id.'),
      errors: [],
    },
    {
      ...get('describeItems', '/items/metadata', 'Catalog'),
      tiers: ALL,
      summary: 'Size of the catalog and the values of its filters',
      description: 'Each list holds the values that at least one item has.',
      reply: json('ItemsMetadataReply', itemsMetadataReply, 'Counts and values.'),
      errors: [],
    },
    {
      ...get('listImages', '/images', 'Catalog'),
      tiers: ALL,
      summary: 'Image URLs by display name',
      description: '`format=webp` changes `.png` suffixes to `.webp`.',
      query: imagesQuery,
      reply: json('ImagesReply', imagesReply, 'One or more URLs per name.'),
      errors: [],
    },
    {
      ...get('listProviders', '/providers', 'Catalog'),
      tiers: ALL,
      summary: 'Providers with fees, features and health',
      description: 'An object keyed by display name.',
      query: providersQuery(askKeys),
      reply: json('ProvidersReply', providersReply, 'Provider records.'),
      errors: [],
    },
    {
      ...get('listRates', '/fx', 'Catalog'),
      tiers: ALL,
      summary: 'Exchange rates to the US dollar',
      description: 'Units of a currency per US dollar, with all digits of their source.',
      reply: json('FxReply', fxReply, 'The rates in force.'),
      errors: [],
    },
    {
      ...get('openListing', '/r/:provider/:item_id', 'Catalog'),
      tiers: undefined,
      params: redirectParams,
      summary: 'Redirect to the marketplace page of an item',
      description: 'Needs no key; counts by address. This is the `link` of price entries.',
      reply: {
        status: 302,
        description: 'To the marketplace.',
        headers: { Location: 'Page of the item at the provider.' },
      },
      errors: ['NOT_FOUND', 'ITEM_NOT_FOUND', 'PRICES_INDEX_UNAVAILABLE'],
    },
  ]
}
