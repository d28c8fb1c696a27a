/**
 * The portfolios of an account.
 *
 * Reads the table portfolios, writes nothing. An account sees its own portfolios alone; others are not found.
 */
import { HttpError } from '#infra/http/http-error.ts'
import type { Database } from '#infra/postgres/pool.ts'

/** A portfolio as clients see it. */
export interface PortfolioRecord {
  id: string
  name: string
  item_count: number
  created_at: string
  updated_at: string
}

/** A row of {@link PORTFOLIO_COLUMNS}. */
export interface PortfolioRow {
  id: string
  name: string
  version: string
  entry_count: number
  transaction_count: number
  created_at: Date
  updated_at: Date
}

/** The columns of a portfolio. */
export const PORTFOLIO_COLUMNS = 'id, name, version, entry_count, transaction_count, created_at, updated_at'

/** The portfolio of a row. */
export const portfolioOf = ({ id, name, entry_count, created_at, updated_at }: PortfolioRow): PortfolioRecord => ({
  id,
  name,
  item_count: entry_count,
  created_at: created_at.toISOString(),
  updated_at: updated_at.toISOString(),
})

/** The portfolio is missing, or belongs to another account, which is not revealed. */
export const portfolioNotFound = (): HttpError =>
  new HttpError('PORTFOLIO_NOT_FOUND', 'This account has no portfolio with this id.')

/** The portfolios of an account, oldest first. */
export async function listPortfolios(
  { database }: { database: Database },
  accountId: string,
): Promise<PortfolioRecord[]> {
  const rows = await database.rows<PortfolioRow>(
    `SELECT ${PORTFOLIO_COLUMNS} FROM portfolios WHERE account_id = $1 ORDER BY created_at, id`,
    [accountId],
  )
  return rows.map(portfolioOf)
}

/** A portfolio of an account, the version of what it holds and the length of its ledger; refused when the account has no such one. */
export async function findPortfolio(
  { database }: { database: Database },
  accountId: string,
  portfolioId: string,
): Promise<PortfolioRecord & { version: string; transaction_count: number }> {
  const [row] = await database.rows<PortfolioRow>(
    `SELECT ${PORTFOLIO_COLUMNS} FROM portfolios WHERE id = $1 AND account_id = $2`,
    [portfolioId, accountId],
  )
  if (!row) throw portfolioNotFound()
  return { ...portfolioOf(row), version: row.version, transaction_count: row.transaction_count }
}
