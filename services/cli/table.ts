/**
 * Tables for a terminal: as wide as the terminal at most, with colours only where the terminal takes them.
 *
 * Pure but for the stream that it asks for its width and colours. A column is as wide as its longest cell while all fit;
 * then cells wrap between words, the widest column first; then spare columns are left out, the last first, and named
 * in a line below. Widths that cli-table3 chooses itself ignore the terminal, and its colours ignore NO_COLOR.
 */
import { styleText } from 'node:util'
import Table from 'cli-table3'

/** Where a table goes. `hasColors` is Node's, which heeds NO_COLOR, FORCE_COLOR and TERM. */
export interface TableStream {
  isTTY?: boolean
  columns?: number
  hasColors?(): boolean
}

/** A column. */
export interface TableColumn {
  head: string
  /** A narrow terminal may do without it. */
  spare?: boolean
}

const DEFAULT_WIDTH = 80
/** Longer words are cut with an ellipsis when a column has to wrap. */
const LONGEST_WORD = 24
const PADDING = 2

/** Whether results go out as a table instead of JSON lines. */
export const wantsTable = (output: TableStream, options: { json?: boolean } = {}): boolean =>
  output.isTTY === true && options.json !== true

/** The table as text that ends with a line break. */
export function tableText(
  output: TableStream,
  columns: readonly TableColumn[],
  rows: readonly (readonly (string | number)[])[],
): string {
  const width = output.columns || DEFAULT_WIDTH
  const sizes = columns.map(({ head }, at) => sizeOf([head, ...rows.map(row => String(row[at] ?? ''))]))
  const shown = fitting(columns, sizes, width)
  const widths = shrunk(
    shown.map(at => sizes[at] as Size),
    width,
  )
  const isColoured = output.hasColors?.() ?? false
  const bold = (text: string): string => (isColoured ? styleText('bold', text, { validateStream: false }) : text)
  const table = new Table({
    head: shown.map(at => bold(columns[at]?.head ?? '')),
    colWidths: widths.map(each => each + PADDING),
    wordWrap: true,
    style: { head: [], border: [] },
  })
  for (const row of rows) table.push(shown.map(at => row[at] ?? ''))
  const missing = columns.filter((_, at) => !shown.includes(at)).map(({ head }) => head)
  const note = missing.length === 0 ? '' : `left out for want of width: ${missing.join(', ')}; --json has all\n`
  return `${table.toString()}\n${note}`
}

/** Widths in characters without padding: of the longest line, and of the longest word that is kept whole. */
interface Size {
  natural: number
  least: number
}

function sizeOf(cells: readonly string[]): Size {
  const longest = (texts: readonly string[]): number => Math.max(0, ...texts.map(text => text.length))
  const natural = longest(cells.flatMap(cell => cell.split('\n')))
  return { natural, least: Math.min(longest(cells.flatMap(cell => cell.split(/\s/))), LONGEST_WORD) }
}

/** Width of a table beside its cells' text: a line before each column and one at the end, and the padding. */
const frameWidth = (columns: number): number => columns * (1 + PADDING) + 1

const total = (widths: readonly number[]): number => widths.reduce((sum, each) => sum + each, frameWidth(widths.length))

/** The indexes of the columns that fit, spare ones left out from the last on. */
function fitting(columns: readonly TableColumn[], sizes: readonly Size[], width: number): number[] {
  const shown = columns.map((_, at) => at)
  while (total(shown.map(at => sizes[at]?.least ?? 0)) > width) {
    const last = shown.findLast(at => columns[at]?.spare)
    if (last === undefined) break
    shown.splice(shown.indexOf(last), 1)
  }
  return shown
}

function shrunk(sizes: readonly Size[], width: number): number[] {
  const widths = sizes.map(({ natural }) => natural)
  while (total(widths) > width) {
    const room = widths.map((each, at) => (each > (sizes[at]?.least ?? 0) ? each : 0))
    const widest = room.indexOf(Math.max(...room))
    if (room[widest] === 0) break
    widths[widest] = (widths[widest] ?? 0) - 1
  }
  return widths
}
