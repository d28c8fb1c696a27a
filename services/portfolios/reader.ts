/**
 * The portfolios of an account and what they hold: entries, and the units of each item.
 *
 * Reads portfolios and portfolio_entries, writes nothing. An account sees its own portfolios alone; others are not found.
 */
import type { z } from 'zod'
import { HttpError } from '#infra/http/http-error.ts'
import type { Database } from '#infra/postgres/pool.ts'
import type { entryReply, portfolioReply } from '#schemas/api/portfolios.ts'

export type PortfolioRecord = z.infer<typeof portfolioReply>

export const PORTFOLIO_COLUMNS = 'id, name, entry_count AS item_count, created_at, updated_at'

/** The portfolio is missing, or belongs to another account, which is not revealed. */
export const portfolioNotFound = (): HttpError =>
  new HttpError('PORTFOLIO_NOT_FOUND', 'This account has no portfolio with this id.')

/** The portfolios of an account, oldest first. */
export const listPortfolios = ({ database }: { database: Database }, accountId: string): Promise<PortfolioRecord[]> =>
  database.rows(`SELECT ${PORTFOLIO_COLUMNS} FROM portfolios WHERE account_id = $1 ORDER BY created_at, id`, [
    accountId,
  ])

/** The sizes of a portfolio and the version of what it holds; refused when the account has no such one. */
export async function findPortfolio(
  { database }: { database: Database },
  accountId: string,
  portfolioId: string,
): Promise<{ id: string; version: string; item_count: number; transaction_count: number }> {
  const [portfolio] = await database.rows<Awaited<ReturnType<typeof findPortfolio>>>(
    'SELECT id, version, entry_count AS item_count, transaction_count FROM portfolios WHERE id = $1 AND account_id = $2',
    [portfolioId, accountId],
  )
  if (!portfolio) throw portfolioNotFound()
  return portfolio
}

/** An entry, without what the catalog knows of its item. */
export type EntryRecord = Omit<z.infer<typeof entryReply>, 'market_hash_name' | 'phase'>

export const ENTRY_COLUMNS = `id, item_id, (added_quantity + ledger_quantity)::float8 AS quantity, source,
  gamestore_assetid, float_value, paint_seed, inspect_link, name_tag, stickers, charms, created_at`

/** The entries of a portfolio in the order in which they came. */
export const listEntries = (database: Database, portfolioId: string): Promise<EntryRecord[]> =>
  database.rows(`SELECT ${ENTRY_COLUMNS} FROM portfolio_entries WHERE portfolio_id = $1 ORDER BY sequence`, [
    portfolioId,
  ])

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
