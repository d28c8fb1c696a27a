/**
 * Makes the lines of the result and decides whether their bars hold.
 *
 * Pure. Values are rounded to four significant digits: more would pretend to a precision that no
 * measurement here has. Invariant: `holds` follows from the unrounded figures, and a figure that is no number
 * never holds.
 */
import type { Entry } from './bench.ts'
import { median } from './statistics.ts'

/** One turn: what was measured, and the same of the thing that it is measured against. */
export interface Turn {
  value: number
  against: number
}

interface Named {
  name: string
  unit: string
}

/** Medians of turns; with a bar, the median of the turns' own ratios must reach it. */
export function ratioEntry(named: Named, turns: readonly Turn[], bar: number | null = null): Entry {
  const ratio = median(turns.map(turn => turn.value / turn.against))
  return {
    ...named,
    value: rounded(median(turns.map(turn => turn.value))),
    against: rounded(median(turns.map(turn => turn.against))),
    ratio: rounded(ratio),
    bar,
    holds: Number.isFinite(ratio) && (bar === null || ratio >= bar),
  }
}

/** A figure by itself; with a bar, it must not be above. */
export function figureEntry(named: Named, value: number, bar: number | null = null): Entry {
  const holds = Number.isFinite(value) && (bar === null || value <= bar)
  return { ...named, value: rounded(value), against: null, ratio: null, bar, holds }
}

const rounded = (value: number): number => Number(value.toPrecision(4))
