/** Figures are rounded: more digits would pretend to a precision that no measurement here has. Invariant: files are replaced in one step. */
import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { availableParallelism, cpus, totalmem } from 'node:os'
import { join } from 'node:path'
import Table from 'cli-table3'
import { replaceFile } from '#infra/stack/processes.ts'
import type { Entry } from './entry.ts'

/** Machine and commit, as every line of bench.json carries them. */
export interface Provenance {
  machine: { cores: number; cpu: string; memory_gib: number; node: string }
  /** `is_dirty`: files of the checkout differ from the commit. Null without git. */
  commit: { id: string; is_dirty: boolean } | null
}

export interface Output {
  isTTY?: boolean
  write(text: string): unknown
}

const READABLE_BY_ALL = 0o644
const SHOWN_DIGITS = 4
const KEPT_DIGITS = 6
const GIB = 2 ** 30

export function provenance(): Provenance {
  const git = (...args: string[]): string =>
    execFileSync('git', ['-C', import.meta.dirname, ...args], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim()
  const commitOf = (): Provenance['commit'] => {
    try {
      return { id: git('rev-parse', 'HEAD'), is_dirty: git('status', '--porcelain') !== '' }
    } catch {
      return null
    }
  }
  const cpu = cpus()[0]?.model.trim() ?? 'unknown'
  const machine = { cores: availableParallelism(), cpu, memory_gib: totalmem() / GIB, node: process.version }
  return { machine, commit: commitOf() }
}

export function keepResults(directory: string, file: string, results: unknown): void {
  mkdirSync(directory, { recursive: true })
  replaceFile(join(directory, file), asJson(results), READABLE_BY_ALL)
}

/** Shows the results; in JSON each line also says what it was measured on. */
export function showResults(output: Output, entries: readonly Entry[], measuredOn: Provenance): void {
  output.write(output.isTTY ? `${asTable(entries)}\n` : asJson(linesOf(entries, measuredOn)))
}

export const linesOf = (entries: readonly Entry[], measuredOn: Provenance): object[] =>
  entries.map(entry => ({ ...entry, ...measuredOn }))

const asJson = (results: unknown): string =>
  `${JSON.stringify(results, (_, value) => (typeof value === 'number' ? Number(value.toPrecision(KEPT_DIGITS)) : value), 2)}\n`

function asTable(entries: readonly Entry[]): string {
  const table = new Table({
    head: ['measured', 'value', 'unit', 'against', 'ratio', 'spread', 'bar', ''],
    colAligns: ['left', 'right', 'left', 'right', 'right', 'right', 'right', 'left'],
  })
  for (const { name, value, unit, against, ratio, spread, bar, better, holds } of entries) {
    const range = spread === null ? '' : `${figure(spread.min)} to ${figure(spread.max)}`
    const limit = bar === null ? '' : `${better === 'higher' ? '>=' : '<='} ${figure(bar)}`
    const verdict = holds === null ? '' : holds ? 'holds' : 'MISSED'
    table.push([name, figure(value), unit, figure(against), figure(ratio), range, limit, verdict])
  }
  return table.toString()
}

const figure = (value: number | null): string =>
  value === null ? '' : value.toLocaleString('en', { maximumSignificantDigits: SHOWN_DIGITS })
