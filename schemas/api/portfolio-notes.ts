/**
 * What each parameter and body member of portfolios and inventories means, for the API's description.
 *
 * Joined with all others by member-notes.ts.
 */

/** By parameter or member name. */
export const PORTFOLIO_NOTES: Record<string, { description: string; example: unknown }> = {
  entry_id: { description: 'Id of the entry, not the `item_id`.', example: '1c3ff1a2-9f0e-4a64-8a77-5a2f9f6b0c31' },
  tx_id: { description: 'Id of the transaction.', example: 'b0a4c4a2-22a7-4d0e-8a1c-7d4b5f1a9e02' },
  items: { description: 'Up to 100 items with their quantities.', example: [{ item_id: 4940, quantity: 2 }] },
  quantity: { description: 'Units, 1 to 1,000,000.', example: 2 },
  type: {
    description: 'Direction of a transaction (`buy`, `sell`); of an export, what it holds (`transactions`, `items`).',
    example: 'buy',
  },
  price: { description: 'Price of one unit in hundredths of `currency`.', example: 2710 },
  date: { description: 'Day of the transaction, YYYY-MM-DD, from 2000-01-01 to today.', example: '2026-02-14' },
  fee_amount: { description: 'Fee in hundredths of `currency`.', example: 30 },
  fee_percentage: {
    description: 'Fee in percent of price x quantity, on top of `fee_amount`; up to six decimal places.',
    example: 2.5,
  },
  marketplace: { description: 'Where it was traded, 1 to 64 characters.', example: 'provider_02' },
  note: { description: 'Free text, 1 to 1000 characters.', example: 'from the spring sale' },
  asset_ids: { description: 'Assets to import; the whole inventory when left out.', example: ['31204567890'] },
  start_date: {
    description: 'First day of the window, included. The day of the first transaction when left out.',
    example: '2026-01-01',
  },
  end_date: { description: 'Last day of the window, included. Today when left out.', example: '2026-03-31' },
  gamestore_id: { description: 'A 17-digit account id or a vanity name.', example: '76561190000000001' },
}
