/**
 * One answer per reply schema of portfolios and inventories, for the API's description.
 *
 * Names are those of the description's schemas.
 */

const item = { item_id: 4940, market_hash_name: 'AK-47 | Redline (Field-Tested)', phase: null }
const portfolio = {
  id: '7d9f3c52-64a8-4a0a-9d8e-0b6f6f3f2a11',
  name: 'Long term',
  item_count: 1,
  created_at: '2026-03-03T21:41:00.000Z',
  updated_at: '2026-03-03T21:44:10.000Z',
}
const asset = {
  float_value: 0.2113,
  paint_seed: 661,
  inspect_link: 'game://inspect/6f04ca0c447c5ddc',
  name_tag: null,
  stickers: [{ name: 'Crown (Foil)', slot: 2, wear: null }],
  charms: null,
}
const entry = {
  ...{ id: '1c3ff1a2-9f0e-4a64-8a77-5a2f9f6b0c31', ...item, quantity: 1, source: 'gamestore' },
  ...{ gamestore_assetid: '31204567890', ...asset, created_at: '2026-03-03T21:44:10.000Z' },
}
const transaction = {
  ...{ id: 'b0a4c4a2-22a7-4d0e-8a1c-7d4b5f1a9e02', ...item, type: 'buy', quantity: 2, price: 2710, currency: 'USD' },
  ...{ date: '2026-02-14', fee_amount: null, fee_percentage: 2.5, marketplace: 'provider_02', note: null },
  ...{ created_at: '2026-03-03T21:44:10.000Z', updated_at: '2026-03-03T21:44:10.000Z' },
}
const valueMeta = { currency: 'USD', generated_at: '2026-03-03T21:45:00.000Z', providers_queried: ['provider_02'] }
const earned = {
  ...{ bought: 5420, sold: 0, fees: 136, cost_basis: 5556, market_value: 5862 },
  ...{ realised_profit: 0, unrealised_profit: 306 },
}

/** Schema name → an answer. */
export const PORTFOLIO_EXAMPLES: Record<string, unknown> = {
  PortfolioReply: portfolio,
  PortfoliosReply: { data: [portfolio] },
  EntryReply: entry,
  EntriesReply: [entry],
  TransactionReply: transaction,
  TransactionsReply: [transaction],
  ImportReply: {
    imported: 41,
    skipped: 2,
    unresolved: ['2021 Service Medal'],
  },
  CsvReply: { imported: 210, skipped: 1, unresolved: [], errors: [] },
  PortfolioFile:
    'date,type,market_hash_name,phase,quantity,price,currency,fee_amount,fee_percentage,marketplace,note\r\n2026-02-14,buy,AK-47 | Redline (Field-Tested),,2,2710,USD,,2.5,provider_02,\r\n',
  ValueReply: {
    meta: valueMeta,
    data: {
      line_items: [
        {
          ...{ ...item, quantity: 2, best_ask: 2931, best_bid: 2710, item_value: 5862 },
          ...{ image_url: null, rarity_name: 'Classified', rarity_color: 'd32ce6' },
          providers: [{ provider: 'provider_02', lowest_ask: 2931, quantity: 14 }],
        },
      ],
      ...{ total_value: 5862, items_valued: 1, items_not_found: [] },
    },
  },
  DailyReply: {
    meta: {
      ...{ portfolio_id: portfolio.id, currency: 'USD', providers_queried: ['provider_02'] },
      ...{ start_date: '2026-03-03', end_date: '2026-03-03', interval: '1d' },
      ...{ holdings_basis: 'ledger_close', valuation_basis: 'best_provider_close' },
    },
    data: [{ date: '2026-03-03', total_value: 5862, positions: 1, items_valued: 1, items_missing_price: 0 }],
    pagination: { limit: 365, offset: 0, total: -1, has_next: false, has_prev: false, next_cursor: null },
  },
  PerformanceReply: {
    meta: { portfolio_id: portfolio.id, ...valueMeta, cost_method: 'fifo', rate_basis: 'transaction_day' },
    data: {
      ...{ ...earned, total_profit: 306, items_valued: 1, items_missing_price: 0 },
      items: [{ ...item, quantity: 2, ...earned }],
    },
  },
  InventoryReply: {
    data: [
      {
        ...{ assetid: '31204567890', market_hash_name: item.market_hash_name, phase: null, name: 'AK-47 | Redline' },
        ...{ icon_url: 'https://images.example.com/redline.png', tradable: true, marketable: true, quantity: 1 },
        ...asset,
      },
    ],
    total_count: 1,
  },
}
