/**
 * Decides whether the bars of bars.ts hold, and makes bars of what runs have measured.
 *
 * Of a line with a ratio the ratio is judged, else the value, unrounded. A figure that is no number never holds,
 * with a bar or without.
 */
import type { Bar } from './bars.ts'
import type { Entry } from './bench.ts'

/** Bars by the name of their line. */
export type Bars = Readonly<Record<string, Bar>>

/** What a new bar leaves: a figure may get worse by so much before it is missed. */
const ROOM = 0.15
const DIGITS = 3

/** What a bar judges. */
const figureOf = ({ ratio, value }: Pick<Entry, 'ratio' | 'value'>): number => ratio ?? value

/** The lines with their bars, each judged. */
export function judged(entries: readonly Entry[], bars: Bars): Entry[] {
  return entries.map(entry => {
    if (entry.failure !== undefined) return entry
    const figure = figureOf(entry)
    const bar = Object.hasOwn(bars, entry.name) ? bars[entry.name] : undefined
    if (bar === undefined) return { ...entry, bar: null, holds: Number.isFinite(figure) ? null : false }
    const isWithin = 'atLeast' in bar ? figure >= bar.atLeast : figure <= bar.atMost
    return { ...entry, bar: limitOf(bar), holds: Number.isFinite(figure) && isWithin }
  })
}

/** What is wrong with the bars themselves; `isWhole` says that every benchmark has run to its end. */
export function problemsOf(entries: readonly Entry[], bars: Bars, isWhole: boolean): string[] {
  const names = new Set(entries.map(({ name }) => name))
  const doubled = entries.filter(({ name }, at) => entries.findIndex(entry => entry.name === name) !== at)
  const contrary = entries.filter(({ name, better }) => {
    const bar = bars[name]
    return bar !== undefined && better !== ('atLeast' in bar ? 'higher' : 'lower')
  })
  const absent = isWhole ? Object.keys(bars).filter(name => !names.has(name)) : []
  return [
    ...doubled.map(({ name }) => `two lines are named "${name}"`),
    ...contrary.map(({ name, better }) => `the bar of "${name}" points the other way than better: ${better}`),
    ...absent.map(name => `no benchmark measures "${name}", which has a bar`),
  ]
}

/** A line of a run, as far as a bar is made of it. */
export type Measurement = Pick<Entry, 'name' | 'value' | 'ratio' | 'better' | 'failure'>

/**
 * The bars with new ones for every line that the runs measured: the worst of the runs, with {@link ROOM}. Bars that a
 * specification names stay, and a figure of zero or less gets none.
 */
export function barsWithRoom(runs: readonly (readonly Measurement[])[], bars: Bars): Bars {
  const next: Record<string, Bar> = { ...bars }
  const measured = Map.groupBy(runs.flat(), ({ name }) => name)
  for (const [name, lines] of measured) {
    const better = lines[0]?.better ?? null
    const figures = lines.map(figureOf)
    if (
      better === null ||
      lines.some(({ failure }) => failure !== undefined) ||
      next[name]?.fixed ||
      !figures.every(figure => Number.isFinite(figure) && figure > 0)
    )
      continue
    next[name] =
      better === 'higher'
        ? { atLeast: rounded(Math.min(...figures) * (1 - ROOM)) }
        : { atMost: rounded(Math.max(...figures) * (1 + ROOM)) }
  }
  return next
}

const limitOf = (bar: Bar): number => ('atLeast' in bar ? bar.atLeast : bar.atMost)

const rounded = (value: number): number => Number(value.toPrecision(DIGITS))
