/**
 * Portfolios themselves, and the one way to write into one.
 *
 * Reads and writes the table portfolios. Invariant: a write holds the lock of its portfolio's row from its first read to its
 * commit, checks the limits when it is done, and ends with a new version; an exception in between leaves the portfolio
 * unchanged. An account sees and writes its own portfolios alone; others are not found.
 */
import type { Database, Query } from '#infra/postgres/pool.ts'
import { answerOnce, type IdempotencyKey } from './idempotency.ts'
import { portfolioNotFound, Refusal } from './refusal.ts'
import type { SerialQueues } from './serial-queues.ts'

/** What the write side works with. */
export interface PortfolioStore {
  database: Database
  queues: SerialQueues
}

/** Who writes, and when. */
export interface WriteScope {
  accountId: string
  /** Milliseconds since the epoch. */
  now: number
  idempotencyKey?: IdempotencyKey | undefined
}

/** A write into a portfolio. */
export interface PortfolioScope extends WriteScope {
  portfolioId: string
  /** Entries that the portfolio may hold. */
  entriesMax: number
}

/** A portfolio as clients see it. */
export interface PortfolioRecord {
  id: string
  name: string
  item_count: number
  created_at: string
  updated_at: string
}

/** A portfolio that is locked for a write. */
export interface LockedPortfolio {
  readonly id: string
  /** A write that adds or removes transactions updates it. */
  transactionCount: number
}

/** Room for any file that the CSV import takes. */
export const TRANSACTIONS_MAX = 250_000

interface PortfolioRow {
  id: string
  name: string
  version: string
  entry_count: number
  transaction_count: number
  created_at: Date
  updated_at: Date
}

const COLUMNS = 'id, name, version, entry_count, transaction_count, created_at, updated_at'

const recordOf = ({ id, name, entry_count, created_at, updated_at }: PortfolioRow): PortfolioRecord => ({
  id,
  name,
  item_count: entry_count,
  created_at: created_at.toISOString(),
  updated_at: updated_at.toISOString(),
})

/** Creates an empty portfolio; refused when the account has as many as its tier allows. */
export function createPortfolio(
  { database, queues }: PortfolioStore,
  scope: WriteScope,
  { name, portfoliosMax }: { name: string; portfoliosMax: number },
): Promise<PortfolioRecord> {
  const { accountId, now } = scope
  return queues.add(accountId, () =>
    database.transaction(query =>
      answerOnce(query, scope, async () => {
        // Creates of one account run one at a time, or two of them would both find room for the last portfolio.
        await query('SELECT id FROM accounts WHERE id = $1 FOR NO KEY UPDATE', [accountId])
        const [counted] = await query<{ count: number }>(
          'SELECT count(*)::int AS count FROM portfolios WHERE account_id = $1',
          [accountId],
        )
        if ((counted?.count ?? 0) >= portfoliosMax) {
          throw new Refusal(
            'PORTFOLIO_LIMIT_REACHED',
            `Your tier allows ${portfoliosMax} portfolios; delete one first.`,
          )
        }
        const [row] = await query<PortfolioRow>(
          `INSERT INTO portfolios (account_id, name, created_at, updated_at) VALUES ($1, $2, $3, $3) RETURNING ${COLUMNS}`,
          [accountId, name, new Date(now)],
        )
        return recordOf(row as PortfolioRow)
      }),
    ),
  )
}

/** The portfolios of an account, oldest first. */
export async function listPortfolios({ database }: PortfolioStore, accountId: string): Promise<PortfolioRecord[]> {
  const rows = await database.rows<PortfolioRow>(
    `SELECT ${COLUMNS} FROM portfolios WHERE account_id = $1 ORDER BY created_at, id`,
    [accountId],
  )
  return rows.map(recordOf)
}

/** A portfolio of an account and the version of what it holds; refused when the account has no such one. */
export async function findPortfolio(
  { database }: PortfolioStore,
  accountId: string,
  portfolioId: string,
): Promise<PortfolioRecord & { version: string }> {
  const [row] = await database.rows<PortfolioRow>(
    `SELECT ${COLUMNS} FROM portfolios WHERE id = $1 AND account_id = $2`,
    [portfolioId, accountId],
  )
  if (!row) throw portfolioNotFound()
  return { ...recordOf(row), version: row.version }
}

/** Deletes a portfolio with all that it holds. */
export async function deletePortfolio(
  { database, queues }: PortfolioStore,
  accountId: string,
  portfolioId: string,
): Promise<void> {
  const rows = await queues.add(portfolioId, () =>
    database.rows('DELETE FROM portfolios WHERE id = $1 AND account_id = $2 RETURNING id', [portfolioId, accountId]),
  )
  if (rows.length === 0) throw portfolioNotFound()
}

/** Writes into a portfolio. `work` throws a {@link Refusal} for what the rules forbid. */
export function writePortfolio<T>(
  { database, queues }: PortfolioStore,
  scope: PortfolioScope,
  work: (query: Query, portfolio: LockedPortfolio) => Promise<T>,
): Promise<T> {
  const { accountId, portfolioId } = scope
  return queues.add(portfolioId, () =>
    database.transaction(query =>
      answerOnce(query, scope, async () => {
        const [row] = await query<PortfolioRow>(
          `SELECT ${COLUMNS} FROM portfolios WHERE id = $1 AND account_id = $2 FOR UPDATE`,
          [portfolioId, accountId],
        )
        if (!row) throw portfolioNotFound()
        const portfolio: LockedPortfolio = { id: row.id, transactionCount: row.transaction_count }
        const result = await work(query, portfolio)
        await endWrite(query, scope, row, portfolio)
        return result
      }),
    ),
  )
}

/** Counts what the portfolio holds now, checks its limits, and gives it its next version. */
async function endWrite(
  query: Query,
  { now, entriesMax }: PortfolioScope,
  before: PortfolioRow,
  { id, transactionCount }: LockedPortfolio,
): Promise<void> {
  const [after] = await query<{ entry_count: number }>(
    `UPDATE portfolios SET version = version + 1, updated_at = $2, transaction_count = $3,
      entry_count = (SELECT count(*) FROM portfolio_entries WHERE portfolio_id = $1)
    WHERE id = $1 RETURNING entry_count`,
    [id, new Date(now), transactionCount],
  )
  const entries = after?.entry_count ?? 0
  if (entries > entriesMax && entries > before.entry_count) {
    throw new Refusal('PORTFOLIO_ITEM_LIMIT_REACHED', `A portfolio of your tier holds ${entriesMax} items at most.`)
  }
  if (transactionCount > TRANSACTIONS_MAX) {
    throw new Refusal('PORTFOLIO_ITEM_LIMIT_REACHED', `A portfolio holds ${TRANSACTIONS_MAX} transactions at most.`)
  }
}
