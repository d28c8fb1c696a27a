/**
 * Reads a history file: CSV of name, date, price, currency and listings, as it is or gzipped.
 *
 * Reads one file, writes nothing. Columns are found by their names: `market_hash_name`, `date`, `price_minor` (hundredths) or
 * `price` (units), `currency`, `listings` (may be missing or empty). Invariant: a row that is no close is counted with
 * its reason and left out; the closes of a name come by date, each date once, the last row of a date counting.
 *
 * All closes are held at once, 32 bytes each, since only the whole file shows which close of a name is the last.
 */
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { pipeline } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { parse } from 'csv-parse'
import { DAY_MS, parseInstant } from '#schemas/values/instant.ts'
import { plainName } from '#schemas/values/item-name.ts'
import { isText } from './entry.ts'
import { minorUnits } from './minor-units.ts'

export interface Close {
  /** Start of the UTC day. */
  day: number
  /** Hundredths of the currency. */
  price: number
  currency: string
  listings: number | null
}

export interface HistoryFile {
  /** Name, in its plain form → its closes by date. */
  closes: Map<string, Close[]>
  rows: number
  /** Reason → rows. */
  rejected: Map<string, number>
}

/** The file is no history file as a whole. */
export class UnusableHistory extends Error {}

const ROWS_MAX = 20_000_000
const GZIP_MAGIC = [0x1f, 0x8b]
const NAME_MAX_LENGTH = 512

/** Reads a file; throws {@link UnusableHistory} when a column is missing or the file cannot be read to its end. */
export async function readHistoryFile(
  path: string,
  onProgress: (rows: number) => void,
  signal: AbortSignal,
): Promise<HistoryFile> {
  const file: HistoryFile = { closes: new Map(), rows: 0, rejected: new Map() }
  const parser = parse({ columns: header => checkedHeader(header), skip_empty_lines: true, bom: true, trim: false })
  const source = createReadStream(path)
  const steps = (await isGzip(path)) ? [source, createGunzip(), parser] : [source, parser]
  pipeline(steps as [typeof source, typeof parser], () => undefined)
  try {
    for await (const row of parser as AsyncIterable<Record<string, string>>) {
      signal.throwIfAborted()
      if (++file.rows > ROWS_MAX) throw new UnusableHistory(`more than ${ROWS_MAX} rows; cut the file in two`)
      if (file.rows % 50_000 === 0) onProgress(file.rows)
      addRow(file, row)
    }
  } catch (error) {
    if (signal.aborted || error instanceof UnusableHistory) throw error
    throw new UnusableHistory(error instanceof Error ? error.message : String(error))
  }
  for (const [name, closes] of file.closes) file.closes.set(name, byDay(closes))
  return file
}

async function isGzip(path: string): Promise<boolean> {
  const handle = await open(path)
  try {
    const { buffer } = await handle.read(Buffer.alloc(2), 0, 2, 0)
    return GZIP_MAGIC.every((byte, i) => buffer[i] === byte)
  } finally {
    await handle.close()
  }
}

function checkedHeader(header: string[]): string[] {
  const names = header.map(name => name.trim().toLowerCase())
  const missing = ['market_hash_name', 'date', 'currency'].filter(name => !names.includes(name))
  if (!names.includes('price_minor') && !names.includes('price')) missing.push('price_minor or price')
  if (missing.length > 0) throw new UnusableHistory(`the first line names no column ${missing.join(', ')}`)
  return names
}

function addRow({ closes, rejected }: HistoryFile, row: Record<string, string>): void {
  const name = plainName(row.market_hash_name ?? '')
  const close = name !== '' && isText(name, NAME_MAX_LENGTH) ? readClose(row) : 'name_missing'
  if (typeof close === 'string') {
    rejected.set(close, (rejected.get(close) ?? 0) + 1)
  } else {
    const own = closes.get(name) ?? []
    own.push(close)
    closes.set(name, own)
  }
}

function readClose({
  date = '',
  price_minor,
  price,
  currency = '',
  listings = '',
}: Record<string, string>): Close | string {
  const at = parseInstant(date)
  if (at === undefined || at < 0) return 'date_invalid'
  const minor = price_minor === undefined ? minorUnits(price) : wholeNumber(price_minor)
  if (typeof minor !== 'number' || !Number.isSafeInteger(minor) || minor < 1) return 'price_invalid'
  const code = currency.trim().toUpperCase()
  if (!/^[A-Z]{3,10}$/.test(code)) return 'currency_invalid'
  const count = listings.trim() === '' ? null : wholeNumber(listings)
  if (count === undefined || (count !== null && count > 2 ** 31 - 1)) return 'listings_invalid'
  return { day: Math.floor(at / DAY_MS) * DAY_MS, price: minor, currency: code, listings: count }
}

const wholeNumber = (text: string): number | undefined => (/^\d{1,15}$/.test(text.trim()) ? Number(text) : undefined)

function byDay(closes: readonly Close[]): Close[] {
  return [...new Map(closes.map(close => [close.day, close])).values()].sort((a, b) => a.day - b.day)
}
