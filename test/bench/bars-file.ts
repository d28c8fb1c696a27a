/**
 * Writes bars.ts again with bars that were made of kept results.
 *
 * What comes before the record stays as it is, and the file is formatted as the check wants it.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { replaceFile } from '#infra/stack/processes.ts'
import { BARS } from './bars.ts'
import { type Bars, barsWithRoom, type Measurement } from './judge.ts'

const FILE = fileURLToPath(new URL('./bars.ts', import.meta.url))
const RECORD = 'export const BARS: Readonly<Record<string, Bar>> = '
const READABLE_BY_ALL = 0o644

/** Sets the bars from the results of runs; returns how many there are now. */
export function setBars(resultFiles: readonly string[]): number {
  const runs = resultFiles.map(file => JSON.parse(readFileSync(file, 'utf8')) as Measurement[])
  const bars = barsWithRoom(runs, BARS)
  replaceFile(FILE, withRecord(readFileSync(FILE, 'utf8'), bars), READABLE_BY_ALL)
  execFileSync('biome', ['check', '--write', FILE], { stdio: ['ignore', 'ignore', 'inherit'] })
  return Object.keys(bars).length
}

function withRecord(text: string, bars: Bars): string {
  const start = text.indexOf(RECORD)
  if (start < 0) throw new Error(`${FILE} has no line that begins with "${RECORD}"`)
  return `${text.slice(0, start + RECORD.length)}${JSON.stringify(bars)}\n`
}
