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
  /** Cells that a row may have: those with a name, or with the empty ones that a spreadsheet writes behind them. */
  widths: readonly [named: number, all: number]
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
  if (cells.length === 1 && /[;\t]/.test(cells[0] ?? '')) {
    return 'columns are separated by commas, unless a first line such as "sep=;" names another separator'
  }
  const named = cells.findLastIndex(cell => cell.trim() !== '') + 1
  const names = cells.slice(0, named).map(cell => cell.trim().toLowerCase())
  const layout: Layout = names.some(name => LEDGER_MARKS.includes(name)) ? 'ledger' : 'snapshot'
  const known: readonly string[] = KNOWN[layout]
  const unknown = names.flatMap((name, i) => (known.includes(name) ? [] : `${i + 1} ("${name.slice(0, 40)}")`))
  if (unknown.length > 0) return `column ${unknown.join(', ')} is none; a ${layout} has ${known.join(', ')}`
  const twice = names.find((name, i) => names.indexOf(name) !== i)
  if (twice !== undefined) return `the column ${twice} occurs twice`
  const missing = NEEDED[layout].filter(name => !names.includes(name))
  if (missing.length > 0) return `the column ${missing.join(', ')} is missing`
  if (!ITEM_COLUMNS.some(name => names.includes(name))) return 'the column market_hash_name or item_id is missing'
  return {
    layout,
    indexes: new Map(names.map((name, i) => [name as LedgerColumn, i])),
    widths: [named, cells.length],
  }
}

/** The name of a column by its index. */
export const columnName = (header: Header | undefined, index: number): string =>
  header?.indexes.entries().find(([, at]) => at === index)?.[0] ?? `column ${index + 1}`

/** What is wrong with the number of a row's cells: more or fewer than it should have may mean that values are in the wrong ones. */
export function widthFault(cells: readonly string[], header: Header): string | undefined {
  const [named, all] = header.widths
  const surplus = cells.findIndex((cell, i) => i >= named && cell.trim() !== '')
  if (surplus < 0 && (cells.length === named || cells.length === all)) return undefined
  const at = surplus < 0 ? Math.min(cells.length, named) : surplus
  const hint = cells.length > named ? '; a cell with a comma needs quotes, decimals a point' : ''
  return `${columnName(header, at)}: the row has ${cells.length} cells, the header ${named}${hint}`
}

/** What a spreadsheet computes, also behind spaces, apostrophes of an earlier export or in full width. */
const FORMULA = /^(['\s]*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]|'*[\t\r\n])/

/** A text as it is exported. */
export const guardedCell = (text: string): string => (FORMULA.test(text) ? `'${text}` : text)

/** The text that {@link guardedCell} was given. */
export const unguardedCell = (cell: string): string =>
  cell.startsWith("'") && FORMULA.test(cell.slice(1)) ? cell.slice(1) : cell
