/**
 * What a portfolio holds: its entries, and the units of each item.
 *
 * Reads portfolio_entries, writes nothing.
 */
import type { Database } from '#infra/postgres/pool.ts'
import type { AssetMembers } from '#schemas/api/portfolios.ts'

/** Where an entry comes from. */
export type EntrySource = 'gamestore' | 'manual' | 'csv'

/** Which asset of the game's platform an entry is, and what is known of it. */
export interface AssetDetails extends AssetMembers {
  gamestore_assetid: string | null
}

/** An entry, without what the catalog knows of its item. */
export interface EntryRecord extends AssetDetails {
  id: string
  item_id: number
  quantity: number
  source: EntrySource
  created_at: string
}

/** The columns of an entry. */
export const ENTRY_COLUMNS = `id, item_id, (added_quantity + ledger_quantity)::float8 AS quantity, source,
  gamestore_assetid, float_value, paint_seed, inspect_link, name_tag, stickers, charms, created_at`

/** A row of {@link ENTRY_COLUMNS}. */
export type EntryRow = Omit<EntryRecord, 'created_at'> & { created_at: Date }

/** The entry of a row. */
export const entryOf = (row: EntryRow): EntryRecord => ({ ...row, created_at: row.created_at.toISOString() })

/** The entries of a portfolio in the order in which they came. */
export async function listEntries(database: Database, portfolioId: string): Promise<EntryRecord[]> {
  const rows = await database.rows<EntryRow>(
    `SELECT ${ENTRY_COLUMNS} FROM portfolio_entries WHERE portfolio_id = $1 ORDER BY sequence`,
    [portfolioId],
  )
  return rows.map(entryOf)
}

/** Units of each item that a portfolio holds, by ascending item id. */
export function listHoldings(
  database: Database,
  portfolioId: string,
): Promise<{ item_id: number; quantity: number }[]> {
  return database.rows(
    `SELECT item_id, sum(added_quantity + ledger_quantity)::float8 AS quantity FROM portfolio_entries
    WHERE portfolio_id = $1 GROUP BY item_id ORDER BY item_id`,
    [portfolioId],
  )
}
