/**
 * Makes the lines of the result.
 *
 * A line keeps every turn, and nothing is rounded: bars are judged by what was measured, and only what is shown
 * is rounded (report.ts).
 */
import type { Better, Entry } from './bench.ts'
import { median } from './statistics.ts'

/** One turn: what was measured, and the same of the thing that it is measured against. */
export interface Turn {
  value: number
  against: number
}

/** What a line is about. */
export interface Named {
  name: string
  unit: string
  better: Better
}

/** Medians of turns; the ratio is the median of the turns' own ratios. */
export function ratioEntry({ name, unit, better }: Named, turns: readonly Turn[]): Entry {
  const ratios = turns.map(({ value, against }) => value / against)
  return {
    name,
    value: median(turns.map(({ value }) => value)),
    unit,
    against: median(turns.map(({ against }) => against)),
    ratio: median(ratios),
    bar: null,
    better,
    holds: null,
    turns: [...turns],
    spread: spreadOf(ratios),
  }
}

/** A figure by itself, of one turn or of several; `summary` makes the value of them. */
export function figureEntry(
  { name, unit, better }: Named,
  values: number | readonly number[],
  summary: (values: readonly number[]) => number = median,
): Entry {
  const all = typeof values === 'number' ? [values] : values
  return {
    name,
    value: summary(all),
    unit,
    against: null,
    ratio: null,
    bar: null,
    better,
    holds: null,
    turns: all.map(value => ({ value, against: null })),
    spread: spreadOf(all),
  }
}

/** The line of a benchmark that failed: one failure where none is allowed. */
export function failureEntry(bench: string, error: unknown): Entry {
  const failure = error instanceof Error ? error.message : String(error)
  const entry = figureEntry({ name: `${bench}: failed`, unit: 'failures', better: 'lower' }, 1)
  return { ...entry, bar: 0, holds: false, failure }
}

const spreadOf = (figures: readonly number[]): Entry['spread'] =>
  figures.length < 2 ? null : { min: Math.min(...figures), max: Math.max(...figures) }
