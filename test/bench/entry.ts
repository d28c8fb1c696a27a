/**
 * The lines of the result, and whether their bars hold.
 *
 * A line keeps every turn, and nothing is rounded but what is shown (report.ts). Of a line with a ratio the ratio is judged, else the
 * value. A figure that is no number never holds, with a bar or without.
 */
import type { Bars } from './bars.ts'
import { median } from './statistics.ts'

/** What one turn measured, and the same of the thing that it is measured against. */
export interface Turn {
  value: number
  against: number | null
}

/** One line of the table and one element of bench.json. */
export interface Entry {
  name: string
  value: number
  unit: string
  /** What the same run measured for the thing it is measured against, in the same unit. */
  against: number | null
  /** Value by against; where there is one, the bar and the spread are about it, else about the value. */
  ratio: number | null
  /** The smallest allowed figure where higher is better, the largest where lower is; null without a bar. */
  bar: number | null
  better: 'higher' | 'lower' | null
  /** Null without a bar; false of a figure that is no number. */
  holds: boolean | null
  turns: Turn[]
  /** Smallest and largest of the turns; null of fewer than two. */
  spread: { min: number; max: number } | null
  /** Why the benchmark of this name measured nothing. */
  failure?: string
}

/** A line of one turn or of several; `summary` makes the value, and the ratio of the turns' own ratios. */
export function entryOf(
  name: string,
  unit: string,
  measured: number | readonly (number | Turn)[],
  summary: (values: readonly number[]) => number = median,
): Entry {
  const all = typeof measured === 'number' ? [measured] : measured
  const turns = all.map(turn => (typeof turn === 'number' ? { value: turn, against: null } : turn))
  const values = turns.map(({ value }) => value)
  const pairs = turns.flatMap(({ value, against }) => (against === null ? [] : [{ ratio: value / against, against }]))
  const ratios = pairs.map(({ ratio }) => ratio)
  const figures = ratios.length > 0 ? ratios : values
  return {
    ...{ name, value: summary(values), unit, bar: null, better: null, holds: null, turns },
    against: ratios.length > 0 ? median(pairs.map(({ against }) => against)) : null,
    ratio: ratios.length > 0 ? summary(ratios) : null,
    spread: figures.length < 2 ? null : { min: Math.min(...figures), max: Math.max(...figures) },
  }
}

/** The line of a benchmark that failed: one failure where none is allowed. */
export function failureEntry(bench: string, error: unknown): Entry {
  const failure = error instanceof Error ? error.message : String(error)
  return { ...entryOf(`${bench}: failed`, 'failures', 1), bar: 0, better: 'lower', holds: false, failure }
}

export function judged(entries: readonly Entry[], bars: Bars): Entry[] {
  return entries.map(entry => {
    if (entry.failure !== undefined) return entry
    const figure = entry.ratio ?? entry.value
    const bar = Object.hasOwn(bars, entry.name) ? bars[entry.name] : undefined
    if (!bar) return { ...entry, holds: Number.isFinite(figure) ? null : false }
    const isHigher = 'atLeast' in bar
    const limit = isHigher ? bar.atLeast : bar.atMost
    const holds = Number.isFinite(figure) && (isHigher ? figure >= limit : figure <= limit)
    return { ...entry, bar: limit, better: isHigher ? 'higher' : 'lower', holds }
  })
}

/** What is wrong with the names of the lines; `isWhole` says that every benchmark has run to its end. */
export function problemsOf(entries: readonly Entry[], bars: Bars, isWhole: boolean): string[] {
  const names = entries.map(({ name }) => name)
  const doubled = names.filter((name, at) => names.indexOf(name) !== at)
  const absent = isWhole ? Object.keys(bars).filter(name => !names.includes(name)) : []
  return [
    ...doubled.map(name => `two lines are named "${name}"`),
    ...absent.map(name => `no benchmark measures "${name}", which has a bar`),
  ]
}
