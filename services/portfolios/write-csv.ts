/**
 * Writes a portfolio as a file that the CSV import accepts.
 *
 * Pure. RFC 4180 with the columns of csv-columns.ts; amounts are hundredths as whole numbers. Invariant: importing what is
 * written here into an empty portfolio gives the same ledger, or the same holdings, and no cell is a formula.
 */
import { stringify } from 'csv-stringify/sync'
import { guardedCell } from './csv-columns.ts'
import type { TransactionInput } from './transactions.ts'

/** What the catalog knows of an item. */
export interface NamedItem {
  market_hash_name: string
  phase: string | null
}

/** First row of a ledger. */
export const LEDGER_HEADER =
  'date,type,market_hash_name,phase,quantity,price,currency,fee_amount,fee_percentage,marketplace,note\r\n'

/** First row of a file of holdings. */
export const SNAPSHOT_HEADER = 'market_hash_name,phase,quantity\r\n'

/** Rows of a ledger. */
export function writeLedgerRows(rows: readonly (TransactionInput & NamedItem)[]): string {
  return write(
    rows.map(row => [
      ...[row.date, row.type, guardedCell(row.market_hash_name), row.phase ?? '', row.quantity, row.price],
      ...[row.currency, row.fee_amount ?? '', row.fee_percentage ?? ''],
      ...[guardedCell(row.marketplace ?? ''), guardedCell(row.note ?? '')],
    ]),
  )
}

/** Rows of holdings. */
export function writeSnapshotRows(rows: readonly (NamedItem & { quantity: number })[]): string {
  return write(rows.map(row => [guardedCell(row.market_hash_name), row.phase ?? '', row.quantity]))
}

const write = (rows: (string | number)[][]): string =>
  stringify(rows, { record_delimiter: '\r\n', quoted_match: /[\r\n]|^\s|\s$/ })
