/**
 * The two layouts of portfolio files, and how one row and one cell are read.
 *
 * Pure. Rules: DECISIONS.md, "Portfolios and inventories". A text that a spreadsheet would take for a formula is exported with an
 * apostrophe before it and imported without, and no other text changes, so an export imports unchanged. What spreadsheets write is read where it means one thing: capitals, blanks, times behind days, `1.0` units. A number that
 * could mean two is refused instead of being guessed, since a price that is wrong by a hundred is worse than a file that comes
 * back. Amounts are hundredths as whole numbers, as everywhere in the API, or units with a decimal point; one file holds one of
 * the two. A row yields a value or a fault that names its column, and depends on the rows before it in that choice alone.
 */
import { formatDay, parseInstant } from '#schemas/values/instant.ts'
import { plainName } from '#schemas/values/item-name.ts'
import { parsePhase } from '#schemas/values/phase.ts'
import type { TransactionInput } from '../ledger/reader.ts'

/** Columns of a ledger file, in the order of an export. */
export const LEDGER_COLUMNS = [
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

type LedgerColumn = (typeof LEDGER_COLUMNS)[number]

/** The columns of each layout, and those that it needs beside one of the item. */
const LAYOUTS: Record<'ledger' | 'snapshot', { columns: readonly LedgerColumn[]; needed: readonly LedgerColumn[] }> = {
  ledger: { columns: LEDGER_COLUMNS, needed: ['date', 'type', 'quantity', 'price'] },
  snapshot: { columns: ['market_hash_name', 'item_id', 'phase', 'quantity'], needed: ['quantity'] },
}
const ITEM_COLUMNS = ['market_hash_name', 'item_id']
/** Only a ledger has these, so one of them determines the layout. */
const LEDGER_MARKS = ['date', 'type', 'price']

export type Header = ReturnType<typeof readHeader>

/** Reads the first row; throws a {@link RowFault}. */
export function readHeader(cells: readonly string[]) {
  if (cells.length === 1 && /[;\t]/.test(cells[0] ?? ''))
    throw new RowFault('columns are separated by commas, unless a first line such as "sep=;" names another separator')
  const named = cells.findLastIndex(cell => cell.trim() !== '') + 1
  const names = cells.slice(0, named).map(cell => cell.trim().toLowerCase())
  const layout = names.some(name => LEDGER_MARKS.includes(name)) ? 'ledger' : 'snapshot'
  const columns: readonly string[] = LAYOUTS[layout].columns
  const unknown = names.flatMap((name, i) => (columns.includes(name) ? [] : `${i + 1} ("${name.slice(0, 40)}")`))
  if (unknown.length > 0)
    throw new RowFault(`column ${unknown.join(', ')} is none; a ${layout} has ${columns.join(', ')}`)
  const twice = names.find((name, i) => names.indexOf(name) !== i)
  if (twice !== undefined) throw new RowFault(`the column ${twice} occurs twice`)
  const missing: string[] = LAYOUTS[layout].needed.filter(name => !names.includes(name))
  if (!ITEM_COLUMNS.some(name => names.includes(name))) missing.push(ITEM_COLUMNS.join(' or '))
  if (missing.length > 0) throw new RowFault(`the column ${missing.join(', ')} is missing`)
  return {
    layout,
    indexes: new Map(names.map((name, i) => [name as LedgerColumn, i])),
    /** Cells that a row may have: those with a name, or with the empty ones that a spreadsheet writes behind them. */
    widths: [named, cells.length],
  } as const
}

export const columnName = (header: Header | undefined, index: number): string =>
  header?.indexes.entries().find(([, at]) => at === index)?.[0] ?? `column ${index + 1}`

/** Refuses a row of more or fewer cells than it should have: values may be in the wrong ones. */
function checkWidth({ cells, header }: Row): void {
  const [named, all] = header.widths
  const surplus = cells.findIndex((cell, i) => i >= named && cell.trim() !== '')
  if (surplus < 0 && (cells.length === named || cells.length === all)) return
  const at = surplus < 0 ? Math.min(cells.length, named) : surplus
  const hint = cells.length > named ? '; a cell with a comma needs quotes, decimals a point' : ''
  throw new RowFault(`${columnName(header, at)}: the row has ${cells.length} cells, the header ${named}${hint}`)
}

/** A spreadsheet computes it, also behind spaces, apostrophes of an earlier export or in full width. */
const FORMULA = /^(['\s]*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]|'*[\t\r\n])/

export const guardedCell = (text: string): string => (FORMULA.test(text) ? `'${text}` : text)

export const unguardedCell = (cell: string): string =>
  cell.startsWith("'") && FORMULA.test(cell.slice(1)) ? cell.slice(1) : cell

export interface CsvScope {
  idOf(name: string, phase: string | null): number | undefined
  nameOf(itemId: number): string | undefined
  isCurrency(code: string): boolean
  /** The last day that a transaction may have, YYYY-MM-DD. */
  latestDay: string
}

/** The form of a file's amounts, once a row has shown it. */
export interface AmountForm {
  form?: 'hundredths' | 'decimals'
  row?: number
}

const EARLIEST_DAY = '2000-01-01'
const TRADED_MAX = 1_000_000
/** Units of one entry, which may carry those of a whole ledger: 250,000 transactions. */
const HELD_MAX = 10 ** 12

export class RowFault extends Error {
  /** The name that no item has. */
  readonly unresolved: string | undefined

  constructor(message: string, unresolved?: string) {
    super(message)
    this.unresolved = unresolved
  }
}

interface Row {
  number: number
  cells: readonly string[]
  header: Header
}

/** A spreadsheet may write a whole number with a fraction of zeros. */
const WHOLE = /^(\d{1,16})(?:\.0+)?$/
const HUNDREDTHS = /^\d{1,16}$/
/** Not `13.0`, which is 13 hundredths as well, written by a program that keeps a column's numbers with fractions. */
const UNITS = /^\d{1,14}\.(?:\d\d|[1-9])$/
/** A ledger stores amounts up to 2^53. */
const AMOUNT_MAX = 2n ** 53n
const ZERO = /^0+(?:\.0+)?$/
const PERCENT = /^\d{1,3}(\.\d{1,6})?$/
const DAY = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d(?:[.,]\d+)?)?(Z|[+-]\d\d:?\d\d)?)?$/

export function readLedgerRow(row: Row, scope: CsvScope, amounts: AmountForm): TransactionInput {
  checkWidth(row)
  const type = cellOf(row, 'type').toLowerCase()
  if (type !== 'buy' && type !== 'sell') throw new RowFault(`type is buy or sell, not ${shown(type)}`)
  const currency = cellOf(row, 'currency').toUpperCase() || 'USD'
  if (!scope.isCurrency(currency)) throw new RowFault(`currency ${shown(currency)} is none that GET /fx lists`)
  return {
    item_id: readItem(row, scope),
    type,
    quantity: readQuantity(row, TRADED_MAX),
    price: readAmount(row, 'price', amounts) ?? missing('price'),
    currency,
    date: readDay(cellOf(row, 'date'), scope.latestDay),
    fee_amount: readAmount(row, 'fee_amount', amounts),
    fee_percentage: readPercentage(cellOf(row, 'fee_percentage')),
    marketplace: readText(row, 'marketplace', 64),
    note: readText(row, 'note', 1000),
  }
}

export function readSnapshotRow(row: Row, scope: CsvScope): { item_id: number; quantity: number } {
  checkWidth(row)
  return { item_id: readItem(row, scope), quantity: readQuantity(row, HELD_MAX) }
}

/** A cell without the spaces around it; empty where the file lacks the column. */
function cellOf({ cells, header }: Row, column: LedgerColumn): string {
  const index = header.indexes.get(column)
  return index === undefined ? '' : (cells[index] ?? '').trim()
}

function readItem(row: Row, scope: CsvScope): number {
  const id = cellOf(row, 'item_id')
  const name = unguardedCell(cellOf(row, 'market_hash_name'))
  const phaseText = cellOf(row, 'phase')
  const phase = phaseText === '' ? null : parsePhase(phaseText)
  if (phase === undefined) throw new RowFault(`phase ${shown(phaseText)} does not exist`)
  if (id !== '') {
    const itemId = Number(WHOLE.exec(id)?.[1])
    const itemName = scope.nameOf(itemId)
    if (itemName === undefined) throw new RowFault(`item_id ${shown(id)} is none of the catalog`, id)
    if (name !== '' && plainName(name) !== plainName(itemName))
      throw new RowFault(`market_hash_name of item_id ${id} is ${shown(itemName)}, not ${shown(name)}`)
    return itemId
  }
  if (name === '') throw new RowFault('market_hash_name or item_id is missing')
  const itemId = scope.idOf(name, phase)
  if (itemId === undefined) {
    const item = phase === null ? shown(name) : `${shown(name)} with the phase ${phase}`
    throw new RowFault(`market_hash_name ${item} is no item of the catalog`, name)
  }
  return itemId
}

function readQuantity(row: Row, most: number): number {
  const text = cellOf(row, 'quantity')
  const quantity = Number(WHOLE.exec(text)?.[1] ?? 0)
  if (quantity >= 1 && quantity <= most) return quantity
  throw new RowFault(`quantity is a whole number from 1 to ${most}, not ${shown(text)}`)
}

function readAmount(row: Row, column: 'price' | 'fee_amount', seen: AmountForm): number | null {
  const text = cellOf(row, column)
  if (text === '') return null
  if (ZERO.test(text)) return 0
  const form = HUNDREDTHS.test(text) ? 'hundredths' : UNITS.test(text) ? 'decimals' : undefined
  const [units = '', fraction = ''] = text.split('.')
  const digits = form === 'decimals' ? units + fraction.padEnd(2, '0') : units
  if (!form || (digits.length > 15 && BigInt(digits) > AMOUNT_MAX)) {
    throw new RowFault(
      `${column} is hundredths as a whole number (1250) or units with a decimal point (12.50; 13.0 could be either), not ${shown(text)}`,
    )
  }
  if (seen.form !== undefined && seen.form !== form) {
    throw new RowFault(
      `${column} ${text} is in ${form}, but row ${seen.row} is in ${seen.form}; a file holds one of them`,
    )
  }
  seen.form = form
  seen.row ??= row.number
  return Number(digits)
}

/** The day that is written; of a time whose offset puts it on another day in UTC it could be either. */
function readDay(text: string, latestDay: string): string {
  const [, day = '', time, seconds = ':00', zone = 'Z'] = DAY.exec(text.toUpperCase()) ?? []
  const instant = parseInstant(time === undefined ? day : `${day}T${time}${seconds}${zone}`)
  if (instant === undefined || (time !== undefined && formatDay(instant) !== day))
    throw new RowFault(`date is YYYY-MM-DD, not ${shown(text)}`)
  if (day < EARLIEST_DAY || day > latestDay) {
    throw new RowFault(`date lies between ${EARLIEST_DAY} and ${latestDay}, unlike ${day}`)
  }
  return day
}

function readPercentage(text: string): number | null {
  if (text === '') return null
  if (PERCENT.test(text) && Number(text) <= 100) return Number(text)
  throw new RowFault(`fee_percentage is a number from 0 to 100 with a decimal point, not ${shown(text)}`)
}

/** Free text keeps its spaces. */
function readText({ cells, header }: Row, column: 'marketplace' | 'note', longest: number): string | null {
  const index = header.indexes.get(column)
  const text = index === undefined ? '' : unguardedCell(cells[index] ?? '')
  if (text === '') return null
  if ([...text].length > longest) throw new RowFault(`${column} has more than ${longest} characters`)
  return text
}

function missing(column: LedgerColumn): never {
  throw new RowFault(`${column} is missing`)
}

const shown = (text: string): string =>
  text === '' ? 'nothing' : `"${text.length > 60 ? `${text.slice(0, 60)}...` : text}"`
