/**
 * The two layouts of portfolio files, and how one cell is written and read.
 *
 * Rules: DECISIONS.md, "Portfolios and inventories". Invariant: a text that a spreadsheet would take for a formula is exported with an
 * apostrophe before it and imported without, and no other text changes, so an export imports unchanged.
 */

/** Columns of a ledger file, in the order of an export. */
const LEDGER_COLUMNS = [
  'date',
  'type',
  'market_hash_name',
  'item_id',
  'phase',
  'quantity',
  'price',
  'currency',
  'fee_amount',
  'fee_percentage',
  'marketplace',
  'note',
] as const

/** Columns of a file of holdings. */
const SNAPSHOT_COLUMNS = ['market_hash_name', 'item_id', 'phase', 'quantity'] as const

/** A column of either layout. */
export type LedgerColumn = (typeof LEDGER_COLUMNS)[number]

/** What a file holds. */
type Layout = 'ledger' | 'snapshot'

/** The index of each column. */
export interface Header {
  layout: Layout
  indexes: ReadonlyMap<LedgerColumn, number>
  /** Cells that every row must have. */
  width: number
}

const ITEM_COLUMNS = ['market_hash_name', 'item_id'] as const
const NEEDED: Record<Layout, readonly LedgerColumn[]> = {
  ledger: ['date', 'type', 'quantity', 'price'],
  snapshot: ['quantity'],
}
const KNOWN: Record<Layout, readonly LedgerColumn[]> = { ledger: LEDGER_COLUMNS, snapshot: SNAPSHOT_COLUMNS }
/** Only a ledger has these, so one of them determines the layout. */
const LEDGER_MARKS: readonly string[] = ['date', 'type', 'price']

/** Reads the first row; a text says what is wrong with it. */
export function readHeader(cells: readonly string[]): Header | string {
  const names = cells.map(cell => cell.trim().toLowerCase())
  if (names.length === 1 && /[;\t]/.test(names[0] ?? '')) return 'columns are separated by commas'
  const layout: Layout = names.some(name => LEDGER_MARKS.includes(name)) ? 'ledger' : 'snapshot'
  const known: readonly string[] = KNOWN[layout]
  const unknown = names.filter(name => !known.includes(name))
  if (unknown.length > 0) {
    return `there is no column ${unknown.map(name => `"${name.slice(0, 40)}"`).join(', ')}; a ${layout} has ${known.join(', ')}`
  }
  const twice = names.find((name, i) => names.indexOf(name) !== i)
  if (twice !== undefined) return `the column ${twice} occurs twice`
  const missing = NEEDED[layout].filter(name => !names.includes(name))
  if (missing.length > 0) return `the column ${missing.join(', ')} is missing`
  if (!ITEM_COLUMNS.some(name => names.includes(name))) return 'the column market_hash_name or item_id is missing'
  return { layout, indexes: new Map(names.map((name, i) => [name as LedgerColumn, i])), width: names.length }
}

/** What a spreadsheet computes, also behind spaces, apostrophes of an earlier export or in full width. */
const FORMULA = /^(['\s]*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]|[\t\r\n])/

/** A text as it is exported. */
export const guardedCell = (text: string): string => (FORMULA.test(text) ? `'${text}` : text)

/** The text that {@link guardedCell} was given. */
export const unguardedCell = (cell: string): string =>
  cell.startsWith("'") && FORMULA.test(cell.slice(1)) ? cell.slice(1) : cell
