/**
 * Portfolio files: read whole, with what is wrong row by row, and written so that the import accepts them.
 *
 * Reads in slices, so that other requests go on meanwhile. Rows are counted as a spreadsheet shows them: the header is row 1, a
 * first line `sep=;` is none, and a cell with line breaks is still one row. Invariant: any fault means that nothing of the file
 * counts; at most FAULTS_MAX faults are listed. The file is UTF-8, with or without a byte-order mark, or UTF-16 with one. Files are
 * written by RFC 4180, amounts as hundredths: importing one into an empty portfolio gives the same ledger, or the same holdings, and
 * no cell is a formula.
 */
import { isUtf8 } from 'node:buffer'
import { Readable } from 'node:stream'
import { CsvError, parse } from 'csv-parse'
import { stringify } from 'csv-stringify/sync'
import { nextTurn } from '#infra/runtime/turns.ts'
import { TRANSACTIONS_MAX } from '../commands.ts'
import type { TransactionInput } from '../ledger/reader.ts'
import {
  type AmountForm,
  type CsvScope,
  columnName,
  guardedCell,
  type Header,
  LEDGER_COLUMNS,
  RowFault,
  readHeader,
  readLedgerRow,
  readSnapshotRow,
} from './row.ts'

export type { CsvScope } from './row.ts'

/** A fault of a file, by the row as a spreadsheet counts. */
export interface CsvFault {
  row: number
  message: string
}

export type LedgerRow = TransactionInput & { row: number }

/** Rows without any value are skipped. */
export type CsvContent =
  | { kind: 'refused'; faults: CsvFault[]; unresolved: string[] }
  | { kind: 'ledger'; rows: LedgerRow[]; skipped: number }
  | { kind: 'snapshot'; rows: { item_id: number; quantity: number }[]; skipped: number }

export const FAULTS_MAX = 100
/** A few milliseconds of work. */
const SLICE_BYTES = 32 * 1024
const UTF_16_MARK = Buffer.from([0xff, 0xfe])
/** A quote that is never closed would swallow the rest of the file. */
const ROW_BYTES_MAX = 32 * 1024

/** Faults of a file that is no CSV, by the parser's code. */
const SYNTAX: Record<string, string> = {
  CSV_QUOTE_NOT_CLOSED: 'a quote is opened and never closed',
  CSV_INVALID_CLOSING_QUOTE: 'there is text between a closing quote and the next comma',
  INVALID_OPENING_QUOTE: 'there is a quote inside a cell that is not quoted as a whole',
  CSV_MAX_RECORD_SIZE: `the row is longer than ${ROW_BYTES_MAX} bytes; is a quote never closed?`,
}

type Reading = ReturnType<typeof beginReading>

const beginReading = (file: Buffer) => ({
  /** It holds bytes that are no text: the parser puts U+FFFD in their place. */
  isBroken: !isUtf8(file) && !isUtf16(file),
  header: undefined as Header | undefined,
  row: 0,
  skipped: 0,
  faults: [] as CsvFault[],
  unresolved: new Set<string>(),
  amounts: {} as AmountForm,
  ledger: [] as LedgerRow[],
  snapshot: [] as { item_id: number; quantity: number }[],
})

/** Reads a file: one row more than a portfolio may have at most. */
export async function readCsv(file: Buffer, scope: CsvScope): Promise<CsvContent> {
  const reading = beginReading(file)
  const delimiter = namedDelimiter(file)
  let isSeparatorLine = delimiter !== undefined
  const parser = parse({
    bom: true,
    delimiter: delimiter ?? ',',
    record_delimiter: ['\r\n', '\n', '\r'],
    relax_column_count: true,
    max_record_size: ROW_BYTES_MAX,
    // Rows that the parser hands out later are lost with it when it fails.
    on_record(cells: string[]) {
      if (isSeparatorLine) isSeparatorLine = false
      else if (!isEnough(reading)) readRow(reading, cells, scope)
      return null
    },
  })
  try {
    for await (const _ of Readable.from(slicesOf(file, reading), { objectMode: false }).pipe(parser));
  } catch (error) {
    if (!(error instanceof CsvError)) throw error
    const { index } = error as { index?: number }
    const column = index === undefined ? '' : `${columnName(reading.header, index)}: `
    const message = `${column}${SYNTAX[error.code] ?? 'the row is no CSV'}`
    if (!isEnough(reading)) reading.faults.push({ row: reading.row + 1, message })
  }
  const { header, faults, unresolved, skipped } = reading
  if (!header && faults.length === 0)
    faults.push({ row: 1, message: 'the file is empty; its first row names the columns' })
  if (!header || faults.length > 0) return { kind: 'refused', faults, unresolved: [...unresolved] }
  if (header.layout === 'ledger') return { kind: 'ledger', rows: reading.ledger, skipped }
  return { kind: 'snapshot', rows: reading.snapshot, skipped }
}

const isEnough = ({ header, faults, ledger, snapshot }: Reading): boolean =>
  faults.length >= FAULTS_MAX || (!header && faults.length > 0) || ledger.length + snapshot.length > TRANSACTIONS_MAX

async function* slicesOf(file: Buffer, reading: Reading): AsyncGenerator<Buffer> {
  for (let at = 0; at < file.length && !isEnough(reading); at += SLICE_BYTES) {
    yield file.subarray(at, at + SLICE_BYTES)
    await nextTurn()
  }
}

const isUtf16 = (file: Buffer): boolean => file.subarray(0, UTF_16_MARK.length).equals(UTF_16_MARK)

/** The separator of a first line such as `sep=;`, by which a spreadsheet says how it has written the rest. */
function namedDelimiter(file: Buffer): string | undefined {
  const start = file.toString(isUtf16(file) ? 'utf16le' : 'utf8', 0, ROW_BYTES_MAX)
  return /^\uFEFF?"?sep=([,;\t|])"?\1*(?:[\r\n]|$)/i.exec(start)?.[1]
}

function readRow(reading: Reading, cells: readonly string[], scope: CsvScope): void {
  reading.row += 1
  const { row, header, isBroken, amounts } = reading
  try {
    const isUnreadable = (cell: string) =>
      cell.includes('\0') || !cell.isWellFormed() || (isBroken && cell.includes('\uFFFD'))
    const unreadable = cells.findIndex(isUnreadable)
    if (unreadable >= 0) {
      const column = columnName(header, unreadable)
      throw new RowFault(`${column}: the cell is not UTF-8 text; save the file as "CSV UTF-8"`)
    }
    if (cells.every(cell => cell.trim() === '')) {
      if (header) reading.skipped += 1
    } else if (!header) reading.header = readHeader(cells)
    else if (header.layout === 'ledger')
      reading.ledger.push({ row, ...readLedgerRow({ number: row, cells, header }, scope, amounts) })
    else reading.snapshot.push(readSnapshotRow({ number: row, cells, header }, scope))
  } catch (error) {
    if (!(error instanceof RowFault)) throw error
    reading.faults.push({ row, message: error.message })
    if (error.unresolved !== undefined) reading.unresolved.add(error.unresolved)
  }
}

interface NamedItem {
  market_hash_name: string
  phase: string | null
}

/** First row of a ledger; few files of others have all of these columns. */
export const LEDGER_HEADER = `${LEDGER_COLUMNS.join(',')}\r\n`

/** A file that begins as the export of a ledger does may be larger than others. */
export const isLedgerExport = (start: Buffer): boolean =>
  start.toString('utf8', 0, 200).replace('\uFEFF', '').startsWith(LEDGER_HEADER.trimEnd())

export const SNAPSHOT_HEADER = 'market_hash_name,phase,quantity\r\n'

export function writeLedgerRows(rows: readonly (TransactionInput & NamedItem)[]): string {
  return write(
    rows.map(row => [
      ...[row.date, row.type, guardedCell(row.market_hash_name), row.item_id, row.phase ?? '', row.quantity, row.price],
      ...[row.currency, row.fee_amount ?? '', row.fee_percentage ?? ''],
      ...[guardedCell(row.marketplace ?? ''), guardedCell(row.note ?? '')],
    ]),
  )
}

export function writeSnapshotRows(rows: readonly (NamedItem & { quantity: number })[]): string {
  return write(rows.map(row => [guardedCell(row.market_hash_name), row.phase ?? '', row.quantity]))
}

const write = (rows: (string | number)[][]): string =>
  stringify(rows, { record_delimiter: '\r\n', quoted_match: /[\r\n]|^\s|\s$/ })
