/**
 * What a benchmark is, what it is given, and what it hands back.
 *
 * One file under benches/ exports one {@link Bench}; main.ts lists them. Invariant: what has a peer is measured in the
 * same run as that peer, in turns with it, because one machine is never the same machine twice. Bars are in
 * bars.ts, not in the benchmarks.
 */
import type { Log } from '#infra/runtime/log.ts'
import type { BenchPlatform } from './bench-platform.ts'
import type { Stage } from './stage.ts'

/** Which way a figure is better; null where neither is, as of a count that only describes the run. */
export type Better = 'higher' | 'lower' | null

/** What one turn measured, and the same of the thing that it is measured against. */
interface EntryTurn {
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
  better: Better
  /** Null without a bar; false of a figure that is no number. */
  holds: boolean | null
  turns: EntryTurn[]
  /** Smallest and largest of the turns; null of fewer than two. */
  spread: { min: number; max: number } | null
  /** Why the benchmark of this name measured nothing. */
  failure?: string
}

/** What a benchmark is given. */
export interface BenchContext<S = Stage> {
  /** A short version: less data and fewer turns, for trying a change; its figures mean little. */
  readonly isQuick: boolean
  readonly log: Log
  /** Shows what is being done. */
  say(text: string): void
  /** The market at full size on real servers, with the book alone running; asked for once. */
  stage(): Promise<S>
  /** A namespace without a market, of the benchmark's own, which closes it. */
  platform(): Promise<BenchPlatform>
  /** Aborts when the run is to end early. */
  readonly signal: AbortSignal
}

/** One benchmark. */
export interface Bench<S = Stage> {
  readonly name: string
  /** What it measures, in half a line. */
  readonly about: string
  /**
   * Whether it changes what the market lists or what views hold of it, or measures how much the log holds: it gets a market
   * that was just loaded, and no other benchmark gets it afterwards. The others only move prices and leave the rest as it was.
   */
  readonly ownStage?: true
  run(context: BenchContext<S>): Promise<Entry[]>
}
