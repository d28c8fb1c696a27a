/**
 * One answer per reply schema, for the API's description; a contract test holds each against its schema.
 *
 * Names are those of the description's schemas.
 */

import { ACCOUNT_EXAMPLES } from './account-examples.ts'
import { ALERT_EXAMPLES } from './alert-examples.ts'
import { FEED_EXAMPLES } from './feed-examples.ts'
import { MARKET_EXAMPLES } from './market-examples.ts'
import { PORTFOLIO_EXAMPLES } from './portfolio-examples.ts'
import { WEBHOOK_EXAMPLES } from './webhook-examples.ts'

const item = { item_id: 4940, market_hash_name: 'AK-47 | Redline (Field-Tested)', phase: null }
const times = { timestamp: '2026-03-03T21:34:30.549Z', last_updated: '2026-03-03T21:40:02.000Z' }
const asked = { lowest_ask: 2931, lowest_ask_decimal: '29.31', quantity: 14 }
const bidden = { highest_bid: 2710, highest_bid_decimal: '27.10', num_bids: 6 }
const link = 'https://api.example.com/r/provider_02/4940'
const ask = { provider: 'provider_02', ...item, ...asked, link, ...times }
const bid = { provider: 'provider_02', ...item, ...bidden, ...times }
const pagination = { limit: 100, offset: 0, total: 1, has_next: false, has_prev: false }
const cursorPagination = { limit: 100, offset: 0, total: -1, has_next: false, has_prev: false, next_cursor: null }
const listingMeta = {
  currency: 'USD',
  filters: { item_id: 4940, requested_providers: ['provider_02'] },
  providers_queried: ['provider_02'],
  returned_providers: ['provider_02'],
}
const batchMeta = {
  currency: 'USD',
  requested_item_count: 3,
  found_item_count: 1,
  providers_queried: ['provider_02'],
  generated_at: '2026-03-03T21:41:00.000Z',
}
const notFound = { items_not_found: [4941], names_not_found: ['No Such Item'] }

const catalogEntry = {
  ...item,
  item_type: 'Weapon',
  item_subtype: 'Rifles',
  weapon_type: 'Assault Rifle',
  base_name: 'AK-47',
  skin_name: 'Redline',
  wear_name: 'Field-Tested',
  def_index: '7',
  paint_index: 282,
  collection: 'The Phoenix Collection',
  collection_image: null,
  crates: ['Operation Phoenix Weapon Case'],
  crates_images: ['https://images.example.com/phoenix.png'],
  release_date: '2014-02-20',
  rarity_name: 'Classified',
  rarity_color: 'd32ce6',
  style_name: 'Custom Paint Job',
  is_stattrak: false,
  is_souvenir: false,
  min_float: 0.1,
  max_float: 0.7,
  image_url: 'https://images.example.com/redline.png',
}

const provider = {
  key: 'provider_02',
  code: 'P02',
  logo: 'https://images.example.com/provider_02.png',
  market_type: 'P2P',
  default_currency: 'CNY',
  fees: { sell_fee: 0.025, insta_sell_fee: null, trading_spread_fee: null },
  features: { has_buy_orders: true, has_recent_sales: true },
  health: {
    status: 'up',
    last_checked_at: '2026-03-03T21:40:02.000Z',
    total_offers: 812_345,
    unique_items: 21_007,
    market_coverage: 83.4,
    total_value: 9_120_334_455,
    total_value_usd: 1_314_150_498,
  },
}

const sale = {
  date: '2026-03-03T20:11:09.000Z',
  provider: 'provider_02',
  price: 2900,
  currency: 'USD',
  ...item,
  float: 0.2113,
  paint_seed: 661,
  stickers: [{ name: 'Crown (Foil)', slot: 2, wear: 0 }],
  charms: [],
  inspect: null,
}

/** Schema name → an answer. */
export const REPLY_EXAMPLES: Record<string, unknown> = {
  ...ACCOUNT_EXAMPLES,
  ...PORTFOLIO_EXAMPLES,
  ...WEBHOOK_EXAMPLES,
  ...ALERT_EXAMPLES,
  ...MARKET_EXAMPLES,
  ...FEED_EXAMPLES,
  PriceEntry: ask,
  BidEntry: bid,
  PricesReply: { meta: listingMeta, items: [ask], pagination },
  BidsReply: { meta: listingMeta, items: [bid], pagination },
  PricesBatchReply: {
    meta: batchMeta,
    items: [{ ...item, quotes: [{ provider: 'provider_02', ...asked, ...times }] }],
    ...notFound,
  },
  BidsBatchReply: {
    meta: batchMeta,
    items: [{ ...item, quotes: [{ provider: 'provider_02', ...bidden, ...times }] }],
    ...notFound,
  },
  CandlesReply: {
    meta: {
      ...item,
      provider: 'All Providers',
      currency: 'USD',
      interval: '1d',
      start: '2026-03-02T00:00:00.000Z',
      end: '2026-03-03T00:00:00.000Z',
    },
    data: [
      {
        ...{ t: 1_772_409_600, o: 2950, h: 3200, l: 2899, c: 2931, v: 41, q: 512 },
        providers: { o: 'provider_02', h: 'provider_09', l: 'provider_12', c: 'provider_02' },
      },
    ],
  },
  HistoryReply: {
    meta: {
      currency: 'USD',
      filters: { item_id: 4940, start: '2026-02-17T21:41:00.000Z', end: '2026-03-03T21:41:00.000Z' },
      result_count: 1,
    },
    items: [
      { ...item, provider: 'Market Two', time: '2026-03-03T21:34:30.549Z', price: 2931, currency: 'USD', quantity: 14 },
    ],
    pagination: cursorPagination,
  },
  SalesReply: {
    meta: {
      currency: 'USD',
      filters: {
        ...{ item_id: 4940, market_hash_name: null, phase: null, requested_providers: null },
        ...{ min_float: null, max_float: null, paint_seed: null, stickers: null, charms: null, limit: 100 },
      },
      providers_queried: ['provider_02'],
      result_count: 1,
    },
    items: [sale],
    pagination: cursorPagination,
  },
  ItemsReply: { items: [catalogEntry], pagination: { ...pagination, next_cursor: null } },
  ItemsMetadataReply: {
    catalog: { total_items: 30_000 },
    filters: {
      item_type: ['Weapon'],
      item_subtype: ['Rifles'],
      weapon_type: ['Assault Rifle'],
      wear_name: ['Field-Tested'],
      phase: ['Ruby'],
      collection: ['The Phoenix Collection'],
      rarity_name: ['Classified'],
      rarity_color: ['d32ce6'],
      style_name: ['Custom Paint Job'],
    },
  },
  ImagesReply: { 'AK-47 | Redline': ['https://images.example.com/redline.png'] },
  ProvidersReply: { 'Market Two': provider },
  FxReply: { timestamp: '2026-03-03T00:00:00.000Z', rates: { USD: 1, EUR: 0.8537041, BTC: 0.000012017405 } },
}
