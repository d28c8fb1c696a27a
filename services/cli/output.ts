/**
 * Results on standard output, at the pace of their reader: a table on a terminal, JSON lines in a pipe.
 *
 * Nothing is buffered beyond the stream's own buffer. A table is as wide as the terminal at most, with colours only where the terminal takes them. A column is as wide as its longest cell while
 * all fit; then cells wrap between words, the widest column first; then spare columns are left out, the last first, and named
 * in a line below. Widths that cli-table3 chooses itself ignore the terminal, and its colours ignore NO_COLOR.
 */
import { once } from 'node:events'
import { styleText } from 'node:util'
import Table from 'cli-table3'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'

/** A stream of results. `hasColors` is Node's, which heeds NO_COLOR, FORCE_COLOR and TERM. */
export type Output = NodeJS.WritableStream & { isTTY?: boolean; columns?: number; hasColors?(): boolean }

/** The platform that a command works on, and where its results go. */
export interface CommandContext {
  config: PlatformConfig
  log: Log
  output: Output
}

export interface Column<T> {
  head: string
  cell(result: T): string | number | null
  /** A narrow terminal may do without it. */
  spare?: boolean
}

const DEFAULT_WIDTH = 80
/** Longer words are cut with an ellipsis when a column has to wrap. */
const LONGEST_WORD = 24
const PADDING = 2

export async function write(output: Output, text: string | Buffer): Promise<void> {
  if (!output.write(text)) await once(output, 'drain')
}

export const wantsTable = (output: Pick<Output, 'isTTY'>, options: { json?: boolean } = {}): boolean =>
  output.isTTY === true && options.json !== true

export async function writeResults<T extends object>(
  output: Output,
  options: { json?: boolean },
  results: readonly T[],
  columns: readonly Column<T>[],
): Promise<void> {
  if (wantsTable(output, options)) return write(output, tableText(output, columns, results))
  for (const result of results) await write(output, `${JSON.stringify(result)}\n`)
}

export function tableText<T>(
  output: Pick<Output, 'columns' | 'hasColors'>,
  columns: readonly Column<T>[],
  results: readonly T[],
): string {
  const width = output.columns || DEFAULT_WIDTH
  const sized = columns.map(column => {
    const cells = [column.head, ...results.map(result => String(column.cell(result) ?? ''))]
    const longest = (separator: RegExp): number =>
      Math.max(...cells.flatMap(cell => cell.split(separator)).map(text => text.length))
    return { ...column, natural: longest(/\n/), least: Math.min(longest(/\s/), LONGEST_WORD) }
  })
  // A line before each column and one at the end, and the padding.
  const total = (widths: readonly number[]): number => widths.reduce((sum, each) => sum + each + 1 + PADDING, 1)
  const visible = [...sized]
  while (total(visible.map(({ least }) => least)) > width) {
    const last = visible.findLastIndex(({ spare }) => spare)
    if (last < 0) break
    visible.splice(last, 1)
  }
  const widths = visible.map(({ natural }) => natural)
  while (total(widths) > width) {
    const room = visible.map(({ least }, at) => ((widths[at] ?? 0) > least ? (widths[at] ?? 0) : 0))
    const widest = room.indexOf(Math.max(...room))
    if (room[widest] === 0) break
    widths[widest] = (widths[widest] ?? 0) - 1
  }
  const isColoured = output.hasColors?.() ?? false
  const table = new Table({
    head: visible.map(({ head }) => (isColoured ? styleText('bold', head, { validateStream: false }) : head)),
    colWidths: widths.map(each => each + PADDING),
    wordWrap: true,
    style: { head: [], border: [] },
  })
  for (const result of results) table.push(visible.map(({ cell }) => cell(result) ?? ''))
  const hiddenHeads = sized.filter(column => !visible.includes(column)).map(({ head }) => head)
  const note = hiddenHeads.length === 0 ? '' : `left out for want of width: ${hiddenHeads.join(', ')}; --json has all\n`
  return `${table.toString()}\n${note}`
}

/** `1.2 GB` */
export function bytesText(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  const step = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3))
  const value = bytes / 1000 ** step
  return `${step === 0 ? value : value.toFixed(1)} ${units[step]}`
}
