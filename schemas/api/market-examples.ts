/**
 * Example answers of market analytics, for the API's description.
 *
 * Names are those of the description's schemas.
 */

const item = { item_id: 4940, market_hash_name: 'AK-47 | Redline (Field-Tested)', phase: null }
const GENERATED = '2026-03-03T21:41:00.000Z'
const cached = {
  generated_at: GENERATED,
  data_source: 'cache',
  freshness_sec: 4,
  window: { timeframe: '24h' },
}

const summary = {
  ...{ best_ask_usd: '29.31', best_bid_usd: '27.10', marketcap: '3664063.10', supply: 125_010 },
  ...{ price_diff_24h: '-0.42', price_rate_24h: -1.41, sales_1d: 87, liquidity: 84 },
  ...{ listing_score: 18, gap_score: 11, volume_score: 38, stability_score: 7, external_score: 10 },
  ...{ provider_count: 31, avg_spread_pct: 9.12, total_volume_24h: 87, rank: 37 },
  ...{ price_rate_7d: 2.2, price_diff_7d: '0.63', price_rate_30d: null, price_diff_30d: null },
  ...{ sales_7d: 602, sales_30d: 2411, liquidity_last_updated: GENERATED },
}

const provider = {
  ...{ provider: 'provider_02', ask_usd: '29.31', bid_usd: '27.10', spread_usd: '2.21', spread_pct: 7.54 },
  ...{ ask_depth: 14, bid_depth: 6, bid_anomaly: false, volume_24h: 9, volume_7d: 61, total_value_24h_usd: '265.14' },
  ...{ price_rate_24h: -1.41, price_diff_24h: '-0.42', price_rate_7d: 2.2, price_diff_7d: '0.63' },
  ...{ price_rate_30d: null, price_diff_30d: null },
}

const arbitrage = {
  ...item,
  ...{ buy_provider: 'provider_09', sell_provider: 'provider_02', buy_price_usd: '25.80', sell_price_usd: '27.10' },
  ...{ estimated_fees_usd: '0.68', net_profit_usd: '0.62', gross_spread_pct: 5.0388, quantity: 3 },
  last_updated: '2026-03-03T21:40:40.000Z',
  buy_last_updated: '2026-03-03T21:40:02.000Z',
  sell_last_updated: '2026-03-03T21:40:40.000Z',
}

const group = {
  ...{ group: 'Weapon', marketcap_usd: '91244110.02', item_count: 16_112 },
  ...{ included_count: 12_980, excluded_count: 3_132 },
}

const indicators = {
  momentum: {
    ...{ rsi_14: 54.21, macd_line: 0.112, macd_signal: 0.094, macd_histogram: 0.018 },
    ...{ sma_20: 28.97, sma_50: 28.4, sma_200: null, ema_12: 29.1, ema_26: 28.99 },
    ...{ bb_upper: 30.4, bb_middle: 28.97, bb_lower: 27.54 },
  },
  volatility: {
    ...{ atr_14: 0.61, historical_volatility_20: 33.1 },
    ...{ kc_upper: 30.2, kc_middle: 28.98, kc_lower: 27.76 },
  },
  volume: { vwap: 29.04, obv: 412, volume_sma_20: 88.2 },
  signals: {
    ...{ rsi: 'neutral', macd: 'bullish', trend: null, bollinger: 'neutral' },
    ...{ volatility: 'normal', composite_score: 0.33 },
  },
}

/** Schema name → an answer. */
export const MARKET_EXAMPLES: Record<string, unknown> = {
  ArbitrageReply: {
    meta: { ...cached, window: { timeframe: '60m' }, excluded: { stale: 102, down: 8_411, quarantined: 0 } },
    data: { items: [arbitrage] },
    pagination: { limit: 100, offset: 0, total: -1, has_next: false, has_prev: false },
  },
  IndexesReply: {
    meta: { ...cached, group_by: 'item_type' },
    data: { total_marketcap_usd: '91244110.02', groups: [group] },
  },
  MarketItemsReply: { meta: cached, data: { items: [{ ...item, rank: 37, summary }] } },
  MarketItemReply: {
    meta: { ...cached, data_source: 'mixed' },
    data: {
      ...{ ...item, summary, providers: [provider] },
      coverage: { provider_count: 1, providers_with_volume: 1, providers_with_bid_side: 1 },
    },
  },
  IndicatorsReply: {
    meta: {
      ...{ ...cached, data_source: 'live', window: { timeframe: '365d' } },
      ...{ interval: '1d', currency: 'USD', provider: 'All Providers' },
    },
    data: {
      ...{ ...item, provider: 'All Providers', interval: '1d', close_price_usd: '29.31' },
      ...indicators,
      coverage: {
        ...{ candle_count: 64, first_bucket: '2025-12-29T00:00:00.000Z', last_bucket: '2026-03-02T00:00:00.000Z' },
        ...{ sufficient_for: ['rsi_14', 'macd', 'sma_20'], insufficient_for: ['sma_200'] },
      },
    },
  },
  HistoryChartReply: {
    meta: {
      ...{ item_id: item.item_id, market_hash_name: item.market_hash_name, currency: 'USD' },
      ...{ start: '2026-03-01T00:00:00.000Z', end: '2026-03-03T00:00:00.000Z', providers: ['provider_02'] },
    },
    series: [
      {
        provider: 'provider_02',
        data: [
          { t: 1_772_323_200, price: 2920, qty: 12 },
          { t: 1_772_409_600, price: 2931, qty: null },
        ],
      },
    ],
  },
}
