/**
 * Portfolio files: read whole, with what is wrong row by row, and written so that the import accepts them.
 *
 * Reads in slices, so that other requests go on meanwhile. Rows are counted as a spreadsheet shows them: the header is row 1,
 * and a cell with line breaks is still one row. Invariant: any fault means that nothing of the file counts; at most FAULTS_MAX
 * faults are listed. The file is UTF-8, with or without a byte-order mark, or UTF-16 with one. Files are written by RFC 4180,
 * amounts as hundredths: importing one into an empty portfolio gives the same ledger, or the same holdings, and no cell is a
 * formula.
 */
import { isUtf8 } from 'node:buffer'
import { Readable } from 'node:stream'
import { CsvError, parse } from 'csv-parse'
import { stringify } from 'csv-stringify/sync'
import type { TransactionInput } from '../ledger/reader.ts'
import { guardedCell, type Header, readHeader } from './columns.ts'
import { type AmountForm, type CsvScope, isBlank, RowFault, readLedgerRow, readSnapshotRow } from './row.ts'

export type { CsvScope } from './row.ts'

/** A fault of a file. */
export interface CsvFault {
  /** As a spreadsheet counts: the header is row 1. */
  row: number
  message: string
}

/** What a file says. */
export type CsvContent =
  | { kind: 'refused'; faults: CsvFault[]; unresolved: string[] }
  | { kind: 'ledger'; rows: { row: number; input: TransactionInput }[]; skipped: number }
  | { kind: 'snapshot'; rows: { item_id: number; quantity: number }[]; skipped: number }

/** Faults that one answer lists. */
export const FAULTS_MAX = 100
const SLICE_BYTES = 64 * 1024
const UTF_16_MARK = Buffer.from([0xff, 0xfe])
/** A quote that is never closed would swallow the rest of the file. */
const ROW_BYTES_MAX = 32 * 1024

/** What the parser says of a file that is no CSV, by its code. */
const SYNTAX: Record<string, string> = {
  CSV_QUOTE_NOT_CLOSED: 'a quote is opened and never closed',
  CSV_INVALID_CLOSING_QUOTE: 'there is text between a closing quote and the next comma',
  INVALID_OPENING_QUOTE: 'there is a quote inside a cell that is not quoted as a whole',
  CSV_MAX_RECORD_SIZE: `the row is longer than ${ROW_BYTES_MAX} bytes; is a quote never closed?`,
}

interface Reading {
  /** Whether it holds bytes that are no text: the parser puts U+FFFD in their place. */
  isBroken: boolean
  header: Header | undefined
  row: number
  skipped: number
  faults: CsvFault[]
  unresolved: Set<string>
  amounts: AmountForm
  ledger: { row: number; input: TransactionInput }[]
  snapshot: { item_id: number; quantity: number }[]
}

/** Reads a file. */
export async function readCsv(file: Buffer, scope: CsvScope): Promise<CsvContent> {
  const reading: Reading = {
    isBroken: !isUtf8(file) && !file.subarray(0, UTF_16_MARK.length).equals(UTF_16_MARK),
    header: undefined,
    row: 0,
    skipped: 0,
    faults: [],
    unresolved: new Set(),
    amounts: {},
    ledger: [],
    snapshot: [],
  }
  const parser = Readable.from(slicesOf(file), { objectMode: false }).pipe(
    parse({
      bom: true,
      record_delimiter: ['\r\n', '\n', '\r'],
      relax_column_count: true,
      max_record_size: ROW_BYTES_MAX,
    }),
  )
  try {
    for await (const cells of parser as AsyncIterable<string[]>) {
      reading.row += 1
      readRow(reading, cells, scope)
      if (reading.faults.length >= FAULTS_MAX || (reading.row === 1 && reading.faults.length > 0)) break
    }
  } catch (error) {
    if (!(error instanceof CsvError)) throw error
    // The parser reads ahead, and drops what it has read when it fails.
    const { records = reading.row } = error as { records?: number }
    reading.faults.push({ row: records + 1, message: SYNTAX[error.code] ?? 'the row is no CSV' })
  }
  const { header, faults, unresolved, skipped } = reading
  if (!header && faults.length === 0)
    faults.push({ row: 1, message: 'the file is empty; its first row names the columns' })
  if (!header || faults.length > 0) return { kind: 'refused', faults, unresolved: [...unresolved] }
  return header.layout === 'ledger'
    ? { kind: 'ledger', rows: reading.ledger, skipped }
    : { kind: 'snapshot', rows: reading.snapshot, skipped }
}

function* slicesOf(file: Buffer): Generator<Buffer> {
  for (let at = 0; at < file.length; at += SLICE_BYTES) yield file.subarray(at, at + SLICE_BYTES)
}

function readRow(reading: Reading, cells: readonly string[], scope: CsvScope): void {
  const { row, faults, header } = reading
  const isUnreadable = (cell: string) => cell.includes('\0') || (reading.isBroken && cell.includes('\uFFFD'))
  if (cells.some(isUnreadable)) {
    faults.push({ row, message: 'the row is not UTF-8 text; save the file as "CSV UTF-8"' })
    return
  }
  if (!header) {
    const found = readHeader(cells)
    if (typeof found === 'string') faults.push({ row, message: found })
    else reading.header = found
    return
  }
  if (isBlank(cells)) {
    reading.skipped += 1
    return
  }
  if (cells.length !== header.width) {
    const hint = cells.length > header.width ? '; a cell with a comma needs quotes, decimals a point' : ''
    faults.push({ row, message: `the row has ${cells.length} cells, the header ${header.width}${hint}` })
    return
  }
  try {
    const one = { number: row, cells, header }
    if (header.layout === 'ledger') reading.ledger.push({ row, input: readLedgerRow(one, scope, reading.amounts) })
    else reading.snapshot.push(readSnapshotRow(one, scope))
  } catch (error) {
    if (!(error instanceof RowFault)) throw error
    faults.push({ row, message: error.message })
    if (error.unresolved !== undefined) reading.unresolved.add(error.unresolved)
  }
}

/** What the catalog knows of an item. */
interface NamedItem {
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
