/**
 * Shows and keeps the results: a table on a terminal, JSON in a pipe, and always `bench.json` in the run directory.
 *
 * Invariant: the file is replaced in one step and holds exactly {name, value, unit, against, ratio, bar, holds}.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import Table from 'cli-table3'
import { replaceFile } from '#infra/stack/processes.ts'
import type { Entry } from './bench.ts'

/** Where results are shown. */
export interface Output {
  isTTY?: boolean
  write(text: string): unknown
}

const READABLE_BY_ALL = 0o644

/** Writes `bench.json`; returns its path. */
export function keepResults(directory: string, entries: readonly Entry[]): string {
  mkdirSync(directory, { recursive: true })
  const path = join(directory, 'bench.json')
  replaceFile(path, asJson(entries), READABLE_BY_ALL)
  return path
}

/** Shows the results. */
export function showResults(output: Output, entries: readonly Entry[]): void {
  output.write(output.isTTY ? `${asTable(entries)}\n` : asJson(entries))
}

const asJson = (entries: readonly Entry[]): string => `${JSON.stringify(entries, null, 2)}\n`

function asTable(entries: readonly Entry[]): string {
  const table = new Table({
    head: ['measured', 'value', 'unit', 'against', 'ratio', 'bar', ''],
    colAligns: ['left', 'right', 'left', 'right', 'right', 'right', 'left'],
  })
  for (const { name, value, unit, against, ratio, bar, holds } of entries) {
    const limit = bar === null ? '' : `${ratio === null ? '<=' : '>='} ${bar}`
    const verdict = bar === null ? '' : holds ? 'holds' : 'MISSED'
    table.push([name, figure(value), unit, figure(against), figure(ratio), limit, verdict])
  }
  return table.toString()
}

const figure = (value: number | null): string => (value === null ? '' : value.toLocaleString('en'))
