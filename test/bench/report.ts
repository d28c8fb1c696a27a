/**
 * Shows and keeps the results: a table on a terminal, JSON in a pipe, and always `bench.json` in the run directory.
 *
 * Values are rounded to four significant digits and turns to six: more would pretend to a precision that no measurement
 * here has. Invariant: the file is replaced in one step.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import Table from 'cli-table3'
import { replaceFile } from '#infra/stack/processes.ts'
import type { Entry } from './bench.ts'
import type { Provenance } from './provenance.ts'

/** Where results are shown. */
export interface Output {
  isTTY?: boolean
  write(text: string): unknown
}

const READABLE_BY_ALL = 0o644
const SHOWN_DIGITS = 4
const KEPT_DIGITS = 6

/** Writes `bench.json`: every line also says what it was measured on. */
export function keepResults(directory: string, entries: readonly Entry[], measuredOn: Provenance): void {
  mkdirSync(directory, { recursive: true })
  replaceFile(join(directory, 'bench.json'), asJson(entries, measuredOn), READABLE_BY_ALL)
}

/** Shows the results. */
export function showResults(output: Output, entries: readonly Entry[], measuredOn: Provenance): void {
  output.write(output.isTTY ? `${asTable(entries)}\n` : asJson(entries, measuredOn))
}

const asJson = (entries: readonly Entry[], measuredOn: Provenance): string =>
  `${JSON.stringify(
    entries.map(entry => ({ ...shown(entry), ...measuredOn })),
    null,
    2,
  )}\n`

/** The entry with rounded figures. */
function shown(entry: Entry): Entry {
  const { value, against, ratio, turns, spread } = entry
  return {
    ...entry,
    value: rounded(value, SHOWN_DIGITS),
    against: against === null ? null : rounded(against, SHOWN_DIGITS),
    ratio: ratio === null ? null : rounded(ratio, SHOWN_DIGITS),
    turns: turns.map(turn => ({
      value: rounded(turn.value, KEPT_DIGITS),
      against: turn.against === null ? null : rounded(turn.against, KEPT_DIGITS),
    })),
    spread: spread && { min: rounded(spread.min, SHOWN_DIGITS), max: rounded(spread.max, SHOWN_DIGITS) },
  }
}

function asTable(entries: readonly Entry[]): string {
  const table = new Table({
    head: ['measured', 'value', 'unit', 'against', 'ratio', 'spread', 'bar', ''],
    colAligns: ['left', 'right', 'left', 'right', 'right', 'right', 'right', 'left'],
  })
  for (const { name, value, unit, against, ratio, spread, bar, better, holds } of entries.map(shown)) {
    const range = spread === null ? '' : `${figure(spread.min)} to ${figure(spread.max)}`
    const limit = bar === null ? '' : `${better === 'higher' ? '>=' : '<='} ${figure(bar)}`
    const verdict = holds === null ? '' : holds ? 'holds' : 'MISSED'
    table.push([name, figure(value), unit, figure(against), figure(ratio), range, limit, verdict])
  }
  return table.toString()
}

const figure = (value: number | null): string =>
  value === null ? '' : value.toLocaleString('en', { maximumFractionDigits: 6 })

const rounded = (value: number, digits: number): number => Number(value.toPrecision(digits))
