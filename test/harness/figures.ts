/**
 * Figures of a run, each held to a limit and kept: how fast a backlog is worked off, how long requests go unanswered.
 *
 * Writes .run/fault-figures.json at the end of a run that has any. Invariant: a figure is noted before it is judged, so that
 * the one that is beyond its limit is in the file too.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { addNote, readNotes } from './run-notes.ts'

/** A figure with its limit, in its unit. */
export interface Figure {
  test: string
  what: string
  value: number
  unit: 's' | 'times' | 'share' | 'values'
  limit: { atMost: number } | { atLeast: number }
}

const RUN_FOLDER = fileURLToPath(new URL('../../.run/', import.meta.url))

/** Notes a figure; throws when it is beyond its limit, or none at all. */
export function expectFigure(figure: Figure, environment: NodeJS.ProcessEnv = process.env): void {
  addNote('figures', JSON.stringify(figure), environment)
  const { limit, value } = figure
  const holds = 'atMost' in limit ? value <= limit.atMost : value >= limit.atLeast
  if (!holds) throw new Error(describeFigure(figure))
}

/** The figures of this run so far. */
export const notedFigures = (environment: NodeJS.ProcessEnv = process.env): Figure[] =>
  readNotes('figures', environment).map(line => JSON.parse(line) as Figure)

/** `book under kill: to the end of its input 3.1 s (at most 60)` */
export function describeFigure({ test, what, value, unit, limit }: Figure): string {
  const [word, bound] = 'atMost' in limit ? ['at most', limit.atMost] : ['at least', limit.atLeast]
  return `${test}: ${what} ${Number(value).toPrecision(3)} ${unit} (${word} ${bound})`
}

/** Writes the file, unless this run has no figures. */
export function keepFigures(environment: NodeJS.ProcessEnv = process.env, folder = RUN_FOLDER): void {
  const figures = notedFigures(environment)
  if (figures.length === 0) return
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'fault-figures.json'), `${JSON.stringify(figures, null, 2)}\n`)
}
