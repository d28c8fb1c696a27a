/**
 * The lines of the result, and whether their bars hold.
 *
 * Of a line with a ratio the ratio is judged, else the value. A figure that is no number never holds, with a bar or without. Medians and
 * percentiles, no means: a neighbour's burst on the machine is no part of the result.
 */
import type { Bars } from './bars.ts'

/** One turn's figure, and the same of the thing that it is measured against. */
export interface Turn {
  value: number
  against: number | null
}

/** One line of the table and one element of bench.json. */
export interface Entry {
  name: string
  value: number
  unit: string
  /** The same of the thing that it is measured against, in the same run and unit. */
  against: number | null
  /** Value by against; where there is one, the bar is about it, else about the value. */
  ratio: number | null
  /** The smallest allowed figure where higher is better, the largest where lower is; null without a bar. */
  bar: number | null
  better: 'higher' | 'lower' | null
  /** Null without a bar; false of a figure that is no number. */
  holds: boolean | null
  turns: Turn[]
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
  const pairs = turns.flatMap(({ value, against }) => (against === null ? [] : [{ ratio: value / against, against }]))
  return {
    name,
    value: summary(turns.map(({ value }) => value)),
    unit,
    bar: null,
    better: null,
    holds: null,
    turns,
    against: pairs.length > 0 ? median(pairs.map(({ against }) => against)) : null,
    ratio: pairs.length > 0 ? summary(pairs.map(({ ratio }) => ratio)) : null,
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

/** Faults of the names of the lines; `isWhole` says that every benchmark has run to its end. */
export function problemsOf(entries: readonly Entry[], bars: Bars, isWhole: boolean): string[] {
  const names = entries.map(({ name }) => name)
  const doubled = names.filter((name, at) => names.indexOf(name) !== at)
  const absent = isWhole ? Object.keys(bars).filter(name => !names.includes(name)) : []
  return [
    ...doubled.map(name => `two lines are named "${name}"`),
    ...absent.map(name => `no benchmark measures "${name}", which has a bar`),
  ]
}

/** The middle of some values, the mean of the two middle ones when their number is even; NaN of none. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length / 2
  const upper = sorted[Math.floor(middle)] ?? Number.NaN
  return Number.isInteger(middle) ? ((sorted[middle - 1] ?? Number.NaN) + upper) / 2 : upper
}

/** The smallest value that a share (0 to 1) of all values does not exceed; NaN of none. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN
}

/** The largest of some values, for times that have a limit each; NaN of none. */
export const worst = (values: readonly number[]): number =>
  values.length === 0 ? Number.NaN : values.reduce((most, value) => Math.max(most, value))

const LEAST_SHARE = 0.98

/** Throws when less than 98 % of what was to be done was done: a load that was not the one that it names is a failure and no figure. */
export function requireOffered(what: string, done: number, offered: number): void {
  // Written this way round, a figure that is no number is refused too.
  if (!(done >= LEAST_SHARE * offered))
    throw new Error(`${what}: ${done.toFixed(1)} of ${offered.toFixed(1)} that are claimed`)
}

/** Throws when there is nothing where something is to be measured or checked. */
export function requireSome(what: string, count: number): void {
  if (!(count > 0)) throw new Error(`${what}: there are none`)
}
