/**
 * What a benchmark is, what it is given, and what it hands back.
 *
 * One file under benches/ exports one {@link Bench}; main.ts lists them. Invariant: a figure that has a
 * bar is measured in the same run as what it is measured against, in turns with it, because one machine
 * is never the same machine twice; absolute figures are printed for the reader and judged by no bar,
 * but for times and sizes that the specification names.
 */
import type { Log } from '#infra/runtime/log.ts'
import type { Place } from './place.ts'
import type { Stage } from './stage.ts'

/** One line of the table and one element of bench.json. */
export interface Entry {
  name: string
  value: number
  unit: string
  /** What the same run measured for the thing it is measured against, in the same unit. */
  against: number | null
  ratio: number | null
  /** The smallest allowed ratio; where there is none, the largest allowed value. */
  bar: number | null
  holds: boolean
}

/** What a benchmark is given. */
export interface BenchContext {
  /** A short version: less data and fewer turns, for trying a change; its figures mean little. */
  readonly isQuick: boolean
  readonly log: Log
  /** Tells what is being done. */
  say(text: string): void
  /** The market at full size on real servers; loaded at the first call, shared by the benchmarks of a run. */
  stage(): Promise<Stage>
  /** A namespace without a market, of the benchmark's own, which closes it. */
  place(): Promise<Place>
  /** Aborts when the run is to end early. */
  readonly signal: AbortSignal
}

/** One benchmark. */
export interface Bench {
  readonly name: string
  /** What it measures, in half a line. */
  readonly about: string
  run(context: BenchContext): Promise<Entry[]>
}
