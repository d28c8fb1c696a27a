/**
 * The ledger of a portfolio: buys and sells, each of which may be changed or removed later.
 *
 * Writes portfolio_transactions. Invariant: before a write commits, the holdings of every item that it touches
 * have been checked on all days (rules.ts) under the lock of the portfolio, so that no order of concurrent writers
 * can leave a day on which more was sold than was held.
 */
import { HttpError } from '#infra/http/http-error.ts'
import { insertRows, type Query } from '#infra/postgres/pool.ts'
import { type PortfolioScope, type PortfolioStore, writePortfolio } from '../commands.ts'
import { followLedger } from '../entries/commands.ts'
import { readDayNets, TRANSACTION_COLUMNS, type TransactionInput, type TransactionRecord } from './reader.ts'
import { applyMovement, type DayNets, firstShortfall, type Shortfall, signedQuantity } from './rules.ts'

/** Changes of a transaction; what is left out stays. */
export type TransactionPatch = Partial<Omit<TransactionInput, 'item_id'>>

export function addTransaction(
  store: PortfolioStore,
  scope: PortfolioScope,
  input: TransactionInput,
): Promise<TransactionRecord> {
  return writePortfolio(store, scope, async (query, portfolio) => {
    if (input.type === 'sell') await requireHoldings(query, scope, input.item_id, nets => applyMovement(nets, input))
    const [added] = await insertTransactions(query, scope, [input], `RETURNING ${TRANSACTION_COLUMNS}`)
    portfolio.transactionCount += 1
    await follow(query, scope, input.item_id, signedQuantity(input))
    return added as TransactionRecord
  })
}

export function changeTransaction(
  store: PortfolioStore,
  scope: PortfolioScope,
  transactionId: string,
  patch: TransactionPatch,
): Promise<TransactionRecord> {
  return writePortfolio(store, scope, async query => {
    const before = await findTransaction(query, scope, transactionId)
    const after = { ...before, ...patch }
    const gained = signedQuantity(after) - signedQuantity(before)
    const isMoved = gained !== 0 || after.date !== before.date || after.type !== before.type
    if (isMoved) {
      await requireHoldings(query, scope, before.item_id, nets => {
        applyMovement(nets, before, -1)
        applyMovement(nets, after)
      })
    }
    const [changed] = await query<TransactionRecord>(
      `UPDATE portfolio_transactions SET type = $3, quantity = $4, price = $5, currency = $6, date = $7, fee_amount = $8,
        fee_percentage = $9, marketplace = $10, note = $11, updated_at = $12
      WHERE portfolio_id = $1 AND id = $2 RETURNING ${TRANSACTION_COLUMNS}`,
      [
        ...[scope.portfolioId, transactionId, after.type, after.quantity, after.price, after.currency, after.date],
        ...[after.fee_amount, after.fee_percentage, after.marketplace, after.note, new Date(scope.now)],
      ],
    )
    if (gained !== 0) await follow(query, scope, before.item_id, gained)
    return changed as TransactionRecord
  })
}

export function removeTransaction(store: PortfolioStore, scope: PortfolioScope, transactionId: string): Promise<void> {
  return writePortfolio(store, scope, async (query, portfolio) => {
    const before = await findTransaction(query, scope, transactionId)
    if (before.type === 'buy') {
      await requireHoldings(query, scope, before.item_id, nets => applyMovement(nets, before, -1))
    }
    await query('DELETE FROM portfolio_transactions WHERE portfolio_id = $1 AND id = $2', [
      scope.portfolioId,
      transactionId,
    ])
    portfolio.transactionCount -= 1
    await follow(query, scope, before.item_id, -signedQuantity(before))
  })
}

/** Writes transactions in the order given; called inside a write, after the ledger's rules have been checked. */
export function insertTransactions(
  query: Query,
  { portfolioId, now }: Pick<PortfolioScope, 'portfolioId' | 'now'>,
  inputs: readonly TransactionInput[],
  returning = '',
): Promise<TransactionRecord[]> {
  const at = new Date(now)
  return insertRows(
    query,
    'portfolio_transactions',
    `portfolio_id, created_at, updated_at, item_id, type, quantity, price, currency, date, fee_amount, fee_percentage, marketplace, note`,
    inputs.map(input => ({ ...input, portfolio_id: portfolioId, created_at: at, updated_at: at })),
    returning,
  )
}

async function findTransaction(
  query: Query,
  { portfolioId }: PortfolioScope,
  transactionId: string,
): Promise<TransactionRecord> {
  const [stored] = await query<TransactionRecord>(
    `SELECT ${TRANSACTION_COLUMNS} FROM portfolio_transactions WHERE portfolio_id = $1 AND id = $2`,
    [portfolioId, transactionId],
  )
  if (!stored) throw new HttpError('TRANSACTION_NOT_FOUND', 'This portfolio has no transaction with this id.')
  return stored
}

async function requireHoldings(
  query: Query,
  { portfolioId }: PortfolioScope,
  itemId: number,
  change: (nets: DayNets) => void,
): Promise<void> {
  const nets = (await readDayNets(query, portfolioId, [itemId])).get(itemId) as DayNets
  change(nets)
  const shortfall = firstShortfall(nets)
  if (shortfall) throw new HttpError('INSUFFICIENT_HOLDINGS', describeShortfall(shortfall))
}

export const describeShortfall = ({ date, missing }: Shortfall): string =>
  `On ${date} the ledger would have sold ${missing} more than it held; record what was bought by then first.`

const follow = (query: Query, scope: PortfolioScope, itemId: number, gained: number): Promise<void> =>
  followLedger(query, scope, { itemIds: [itemId], grown: gained > 0 ? [itemId] : [], source: 'manual' })
