/**
 * Imports a portfolio file: all of its rows in one transaction, or none.
 *
 * Writes portfolio_transactions and portfolio_entries. Invariant: rows of a ledger obey its rules together with what the
 * portfolio holds already; a row that does not is reported by its number, and nothing is stored.
 */
import type { z } from 'zod'
import { HttpError } from '#infra/http/http-error.ts'
import type { Query } from '#infra/postgres/pool.ts'
import { nextTurn } from '#infra/runtime/turns.ts'
import type { Violation } from '#schemas/api/error.ts'
import type { csvMembers } from '#schemas/api/portfolios.ts'
import {
  type LockedPortfolio,
  type PortfolioScope,
  type PortfolioStore,
  TRANSACTIONS_MAX,
  writePortfolio,
} from '../commands.ts'
import { followLedger, insertEntries } from '../entries/commands.ts'
import { describeShortfall, insertTransactions } from '../ledger/commands.ts'
import { readDayNets } from '../ledger/reader.ts'
import { rowAtFault } from '../ledger/rules.ts'
import { type CsvContent, type CsvFault, FAULTS_MAX, type LedgerRow } from './reader.ts'

type CsvResult = z.infer<typeof csvMembers>

/** Rows of one statement: some milliseconds of work, however long their notes are. */
const SLICE = 2_000
/** Items whose days are read at a time, and days and rows that are checked without a pause: some milliseconds of work. */
const ITEMS_AT_ONCE = 1_000
const CHECKED_AT_ONCE = 5_000

/** Stores the rows of a file; throws the {@link HttpError} of one that cannot be stored. */
export async function importCsv(store: PortfolioStore, scope: PortfolioScope, content: CsvContent): Promise<CsvResult> {
  if (content.kind === 'refused') throw csvRefusal(content.faults, content.unresolved)
  const most = content.kind === 'ledger' ? Math.min(scope.transactionsMax, TRANSACTIONS_MAX) : scope.entriesMax
  if (content.rows.length > most) {
    // The write would find it only when all of it is stored.
    const detail = `The file has more rows than the ${most} that your tier allows.`
    throw new HttpError('PORTFOLIO_ITEM_LIMIT_REACHED', detail)
  }
  return writePortfolio(store, scope, async (query, portfolio) => {
    if (content.kind === 'ledger') await storeLedger(query, scope, portfolio, content.rows)
    else await storeSnapshot(query, scope, content.rows)
    return { imported: content.rows.length, skipped: content.skipped, unresolved: [], errors: [], price_unit: 'minor' }
  })
}

/** Refuses a file, with the rows that are at fault; the answer has the members of a successful import too. */
function csvRefusal(errors: CsvFault[], unresolved: string[]): HttpError {
  const detail = errors.map(({ row, message }): Violation => {
    return { type: 'value_error', loc: ['body', 'file', row], msg: `row ${row}: ${message}`, input: null, ctx: { row } }
  })
  const members: CsvResult = { imported: 0, skipped: 0, unresolved, errors, price_unit: 'minor' }
  return new HttpError('VALIDATION_ERROR', detail, { members })
}

async function storeLedger(
  query: Query,
  scope: PortfolioScope,
  portfolio: LockedPortfolio,
  rows: readonly LedgerRow[],
): Promise<void> {
  const byItem = Map.groupBy(rows, ({ item_id }) => item_id)
  const itemIds = [...byItem.keys()]
  const faults: CsvFault[] = []
  let checked = 0
  for (let at = 0; at < itemIds.length; at += ITEMS_AT_ONCE) {
    const stored = await readDayNets(query, scope.portfolioId, itemIds.slice(at, at + ITEMS_AT_ONCE))
    for (const [itemId, nets] of stored) {
      const ofItem = byItem.get(itemId) ?? []
      checked += nets.size + ofItem.length
      if (checked > CHECKED_AT_ONCE) {
        await nextTurn()
        checked = 0
      }
      const fault = rowAtFault(nets, ofItem)
      if (fault) faults.push({ row: fault.row, message: `quantity: ${describeShortfall(fault)}` })
    }
  }
  if (faults.length > 0) throw csvRefusal(faults.sort((a, b) => a.row - b.row).slice(0, FAULTS_MAX), [])
  for (let at = 0; at < rows.length; at += SLICE) {
    await insertTransactions(query, scope, rows.slice(at, at + SLICE))
  }
  portfolio.transactionCount += rows.length
  const grown = itemIds.filter(id => byItem.get(id)?.some(({ type }) => type === 'buy'))
  await followLedger(query, scope, { itemIds, grown, source: 'csv' })
}

async function storeSnapshot(
  query: Query,
  scope: PortfolioScope,
  rows: readonly { item_id: number; quantity: number }[],
): Promise<void> {
  for (let at = 0; at < rows.length; at += SLICE) {
    const slice = rows.slice(at, at + SLICE).map(row => ({ ...row, source: 'csv' as const }))
    await insertEntries(query, scope, slice)
  }
}
