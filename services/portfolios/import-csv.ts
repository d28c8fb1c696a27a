/**
 * Imports a portfolio file: all of its rows in one transaction, or none.
 *
 * Writes portfolio_transactions and portfolio_entries. Invariant: rows of a ledger obey its rules together with what the
 * portfolio holds already; a row that does not is reported by its number, and nothing is stored.
 */
import type { Query } from '#infra/postgres/pool.ts'
import { followLedger, insertEntries } from './entries.ts'
import { type DayNets, rowAtFault } from './ledger.ts'
import { type CsvContent, type CsvFault, FAULTS_MAX } from './read-csv.ts'
import { CsvRefusal } from './refusal.ts'
import { type LockedPortfolio, type PortfolioScope, type PortfolioStore, writePortfolio } from './store.ts'
import { describeShortfall, insertTransactions, readDayNets } from './transactions.ts'

/** What an import did. */
export interface CsvResult {
  imported: number
  /** Rows without any value. */
  skipped: number
  unresolved: string[]
  errors: CsvFault[]
}

/** Rows of one statement. */
const SLICE = 5_000

/** Stores what a file says; throws the {@link CsvRefusal} of one that cannot be stored. */
export function importCsv(store: PortfolioStore, scope: PortfolioScope, content: CsvContent): Promise<CsvResult> {
  if (content.kind === 'refused') return Promise.reject(new CsvRefusal(content.faults, content.unresolved))
  return writePortfolio(store, scope, async (query, portfolio) => {
    if (content.kind === 'ledger') await storeLedger(query, scope, portfolio, content.rows)
    else await storeSnapshot(query, scope, content.rows)
    return { imported: content.rows.length, skipped: content.skipped, unresolved: [], errors: [] }
  })
}

type LedgerRows = Extract<CsvContent, { kind: 'ledger' }>['rows']

async function storeLedger(
  query: Query,
  scope: PortfolioScope,
  portfolio: LockedPortfolio,
  rows: LedgerRows,
): Promise<void> {
  const byItem = Map.groupBy(rows, ({ input }) => input.item_id)
  const itemIds = [...byItem.keys()]
  const stored = await readDayNets(query, scope.portfolioId, itemIds)
  const faults: CsvFault[] = []
  for (const [itemId, ofItem] of byItem) {
    const movements = ofItem.map(({ row, input: { type, quantity, date } }) => ({ row, type, quantity, date }))
    const fault = rowAtFault(stored.get(itemId) as DayNets, movements)
    if (fault) faults.push({ row: fault.row, message: describeShortfall(fault) })
  }
  if (faults.length > 0) throw new CsvRefusal(faults.sort((a, b) => a.row - b.row).slice(0, FAULTS_MAX), [])
  for (let at = 0; at < rows.length; at += SLICE) {
    const slice = rows.slice(at, at + SLICE).map(({ input }) => input)
    await insertTransactions(query, scope, slice)
  }
  portfolio.transactionCount += rows.length
  const grown = itemIds.filter(id => byItem.get(id)?.some(({ input }) => input.type === 'buy'))
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
