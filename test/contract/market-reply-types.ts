/**
 * The types of all members of the replies of market data, as the specification gives them.
 *
 * Written by hand, and sharing nothing with schemas/api: an error made there is not made here. Members that it does
 * not give are marked `beyond`.
 */
import { CURSOR, figures, NAMED, OFFSET, PHASE, type ReplyShape, type Shape } from './reply-shapes.ts'

const TIMES = { timestamp: 'ts', last_updated: 'ts' }
const INTERVAL = 'one of 5m, 1h, 1d'
const ALL_PROVIDERS = 'is All Providers'

const LIST_META = {
  currency: 'code',
  filters: {
    'item_id?': 'int',
    'market_hash_name?': 'str',
    'phase?': PHASE,
    'requested_providers?': ['provider'],
  },
  providers_queried: ['provider'],
  returned_providers: ['provider'],
} as const
const ASK = { lowest_ask: 'int', lowest_ask_decimal: 'decimal', quantity: 'int' }
const BID = { highest_bid: 'int', highest_bid_decimal: 'decimal', num_bids: 'int' }
const PRICE = { provider: 'provider', ...NAMED, ...ASK, link: 'url', 'url?': 'url', ...TIMES }
const BID_ENTRY = { provider: 'provider', ...NAMED, ...BID, ...TIMES }
const batchOf = (quote: Record<string, Shape>): Shape => ({
  meta: {
    currency: 'code',
    requested_item_count: 'int',
    found_item_count: 'int',
    providers_queried: ['provider'],
    generated_at: 'ts',
  },
  items: [{ ...NAMED, quotes: [{ provider: 'provider', ...quote, ...TIMES }] }],
  items_not_found: ['int'],
  names_not_found: ['str'],
})

const ITEM: Shape = {
  ...NAMED,
  item_type:
    'one of Agent, Charm, Collectible, Crate, Graffiti, Key, Music Kit, Pass, Patch, Sticker, Sticker Slab, Tool, Weapon?',
  item_subtype: 'str?',
  weapon_type: 'one of Assault Rifle, Sniper Rifle, Pistol, SMG, Shotgun, Machine Gun, Knife, Gloves, Taser?',
  base_name: 'str?',
  skin_name: 'str?',
  wear_name: 'one of Factory New, Minimal Wear, Field-Tested, Well-Worn, Battle-Scarred?',
  def_index: 'digits?',
  paint_index: 'int?',
  collection: 'str?',
  collection_image: 'url?',
  crates: ['str'],
  crates_images: ['url'],
  release_date: 'date?',
  rarity_name: 'str?',
  rarity_color: 'colour?',
  style_name: 'str?',
  is_stattrak: 'bool',
  is_souvenir: 'bool',
  min_float: 'num?',
  max_float: 'num?',
  image_url: 'url?',
  'supply?': 'int',
}

const ANALYTICS = {
  generated_at: 'ts',
  data_source: 'one of cache, live, mixed',
  freshness_sec: 'int',
  window: { timeframe: 'str' },
}
const SUMMARY: Shape = {
  ...{ best_ask_usd: 'usd?', best_bid_usd: 'usd?', marketcap: 'usd?', supply: 'int?' },
  ...{ price_diff_24h: 'usd?', price_rate_24h: 'num?', sales_1d: 'int', liquidity: 'int?' },
  ...{
    listing_score: 'int?',
    gap_score: 'int?',
    volume_score: 'int?',
    stability_score: 'int?',
    external_score: 'int?',
  },
  ...{ provider_count: 'int', avg_spread_pct: 'num?', total_volume_24h: 'int', rank: 'count' },
  ...{ price_rate_7d: 'num?', price_diff_7d: 'usd?', price_rate_30d: 'num?', price_diff_30d: 'usd?' },
  ...{ sales_7d: 'int', sales_30d: 'int', liquidity_last_updated: 'ts' },
}
const MOOD = 'one of overbought, neutral, oversold?'
const COURSE = 'one of bullish, neutral, bearish?'

const READY: Shape = {
  providers: ['provider'],
  item_ids_filter_count: 'int',
  market_hash_names_filter_count: 'int',
}
const CHANGED: Shape = {
  provider: 'provider',
  seen_at: 'ts',
  items: [{ ...NAMED, price: 'int?', qty: 'int', change: 'one of added, updated, removed' }],
}

/** Operation → the shape of its body; of NDJSON that of a line, of a stream of events that of each event. */
export const MARKET_REPLIES: Record<string, ReplyShape> = {
  'GET /prices': { meta: LIST_META, items: [PRICE], pagination: OFFSET },
  'POST /prices': PRICE,
  'POST /prices/batch': batchOf(ASK),
  'GET /prices/candles': {
    meta: { ...NAMED, provider: ALL_PROVIDERS, currency: 'code', interval: INTERVAL, start: 'ts', end: 'ts' },
    data: [
      {
        ...{ t: 'int', o: 'int', h: 'int', l: 'int', c: 'int', v: 'int', q: 'int?' },
        providers: { o: 'provider', h: 'provider', l: 'provider', c: 'provider' },
      },
    ],
  },
  'GET /prices/history': {
    meta: {
      currency: 'code',
      filters: {
        'item_id?': 'int',
        'market_hash_name?': 'str',
        'phase?': PHASE,
        'provider?': 'provider',
        start: 'ts',
        end: 'ts',
      },
      result_count: 'int',
    },
    items: [{ ...NAMED, provider: 'str', time: 'ts', price: 'int', currency: 'code', quantity: 'int' }],
    pagination: CURSOR,
  },
  'GET /bids': { meta: LIST_META, items: [BID_ENTRY], pagination: OFFSET },
  'POST /bids': BID_ENTRY,
  'POST /bids/batch': batchOf(BID),
  'GET /sales': {
    meta: {
      currency: 'code',
      filters: {
        ...{ item_id: 'int?', market_hash_name: 'str?', phase: PHASE, requested_providers: { '?': ['provider'] } },
        ...{ min_float: 'num?', max_float: 'num?', paint_seed: 'int?', stickers: { '?': ['str'] }, charms: 'str?' },
        limit: 'count',
      },
      providers_queried: ['provider'],
      result_count: 'int',
    },
    items: [
      {
        ...{
          date: 'ts',
          provider: 'provider',
          price: 'int',
          currency: 'code',
          ...NAMED,
          float: 'num?',
          paint_seed: 'int?',
        },
        stickers: { '?': [{ name: 'str', slot: 'int', wear: 'num' }] },
        charms: { '?': [{ name: 'str', pattern_id: 'int?' }] },
        inspect: { '?': { in_game: 'str?', screenshot_front: 'url?', screenshot_back: 'url?' } },
      },
    ],
    pagination: CURSOR,
  },
  'GET /items': { items: [ITEM], pagination: { ...OFFSET, next_cursor: 'is null' } },
  'GET /items/metadata': {
    catalog: { total_items: 'int' },
    filters: {
      ...{ item_type: ['str'], item_subtype: ['str'], weapon_type: ['str'], wear_name: ['str'], phase: ['str'] },
      ...{ collection: ['str'], rarity_name: ['str'], rarity_color: ['colour'], style_name: ['str'] },
    },
  },
  'GET /images': { '*': ['url'] },
  'GET /providers': {
    '*': {
      ...{ key: 'provider', code: 'str', logo: 'url', default_currency: 'code' },
      market_type: 'one of STORE, P2P, ESCROW, TRADING, HYBRID',
      fees: figures('sell_fee', 'insta_sell_fee', 'trading_spread_fee'),
      features: { has_buy_orders: 'bool', has_recent_sales: 'bool' },
      health: {
        ...{ status: 'one of up, down', last_checked_at: 'ts?', total_offers: 'int', unique_items: 'int' },
        ...{ market_coverage: 'num', total_value: 'int', total_value_usd: 'int' },
      },
    },
  },
  'GET /fx': { timestamp: 'ts', rates: { '*': 'num' } },
  'GET /feed/prices': { ready: READY, 'prices.changed': CHANGED },
  'GET /feed/bids': { ready: READY, 'bids.changed': CHANGED },
  'POST /feed/token': { token: 'str', expires_at: 'ts' },
  'GET /market/arbitrage': {
    // beyond: how many quotes took no part
    meta: { ...ANALYTICS, excluded: { stale: 'int', down: 'int', quarantined: 'int' } },
    data: {
      items: [
        {
          ...{
            ...NAMED,
            buy_provider: 'provider',
            sell_provider: 'provider',
            buy_price_usd: 'usd',
            sell_price_usd: 'usd',
          },
          ...{ estimated_fees_usd: 'usd', net_profit_usd: 'usd', gross_spread_pct: 'num', last_updated: 'ts' },
          // beyond: the smaller side, and the age of each leg
          ...{ quantity: 'int', buy_last_updated: 'ts', sell_last_updated: 'ts' },
        },
      ],
    },
    pagination: { ...OFFSET, total: 'is -1' },
  },
  'GET /market/indexes': {
    meta: { ...ANALYTICS, window: { timeframe: 'is 24h' }, group_by: 'one of item_type, weapon_type' },
    data: {
      total_marketcap_usd: 'usd',
      groups: [{ group: 'str', marketcap_usd: 'usd', item_count: 'int', included_count: 'int', excluded_count: 'int' }],
    },
  },
  'GET /market/indicators': {
    meta: { ...ANALYTICS, interval: 'one of 1h, 1d', currency: 'code', provider: ALL_PROVIDERS },
    data: {
      ...{ ...NAMED, provider: ALL_PROVIDERS, interval: 'one of 1h, 1d', close_price_usd: 'usd?' },
      momentum: {
        ...figures('rsi_14', 'macd_line', 'macd_signal', 'macd_histogram', 'sma_20', 'sma_50', 'sma_200'),
        ...figures('ema_12', 'ema_26', 'bb_upper', 'bb_middle', 'bb_lower'),
      },
      volatility: figures('atr_14', 'historical_volatility_20', 'kc_upper', 'kc_middle', 'kc_lower'),
      volume: figures('vwap', 'obv', 'volume_sma_20'),
      signals: {
        ...{ rsi: MOOD, macd: COURSE, trend: COURSE, bollinger: MOOD, volatility: 'one of high, normal, low?' },
        composite_score: 'num?',
      },
      coverage: {
        ...{ candle_count: 'int', first_bucket: 'ts?', last_bucket: 'ts?' },
        ...{ sufficient_for: ['str'], insufficient_for: ['str'] },
      },
    },
  },
  'GET /market/movers': {
    meta: { ...ANALYTICS, window: { timeframe: 'one of 1h, 24h, 7d' } },
    data: [
      {
        ...{ ...NAMED, item_type: 'str?', best_ask_usd: 'usd', previous_best_ask_usd: 'usd', change_usd: 'usd' },
        ...{ change_pct: 'num', provider_count: 'int', volume: 'int', since: 'ts' },
      },
    ],
  },
  'GET /market/items': { meta: ANALYTICS, data: { items: [{ ...NAMED, rank: 'count', summary: SUMMARY }] } },
  'GET /market/items/:item_id': {
    meta: ANALYTICS,
    data: {
      ...NAMED,
      summary: SUMMARY,
      providers: [
        {
          ...{ provider: 'provider', ask_usd: 'usd', bid_usd: 'usd?', spread_usd: 'usd?', spread_pct: 'num?' },
          ...{ ask_depth: 'int', bid_depth: 'int?', bid_anomaly: 'bool', volume_24h: 'int', volume_7d: 'int' },
          ...{ total_value_24h_usd: 'usd', price_rate_24h: 'num?', price_diff_24h: 'usd?', price_rate_7d: 'num?' },
          ...{ price_diff_7d: 'usd?', price_rate_30d: 'num?', price_diff_30d: 'usd?' },
        },
      ],
      coverage: { provider_count: 'int', providers_with_volume: 'int', providers_with_bid_side: 'int' },
    },
  },
  'GET /market/history/chart': {
    meta: {
      item_id: 'int',
      market_hash_name: 'str',
      currency: 'code',
      start: 'ts',
      end: 'ts',
      providers: ['provider'],
    },
    series: [{ provider: 'provider', data: [{ t: 'int', price: 'int', qty: 'int?' }] }],
  },
}
