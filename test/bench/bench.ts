/** Invariant: what has a peer is measured in the same run as that peer, in turns with it, because one machine is never the same machine twice. */
import type { Log } from '#infra/runtime/log.ts'
import type { BenchPlatform } from './bench-platform.ts'
import type { Entry } from './entry.ts'
import type { Stage } from './stage.ts'

export interface BenchContext {
  /** A short version: less data and fewer turns, for trying a change; its figures mean little. */
  readonly isQuick: boolean
  readonly log: Log
  say(text: string): void
  /** The market at full size on real servers, with the book alone running; asked for once. */
  stage(): Promise<Stage>
  /** A namespace without a market, of the benchmark's own, which goes when it has ended. */
  platform(): Promise<BenchPlatform>
  /** Aborts when the run is to end early. */
  readonly signal: AbortSignal
}

export interface Bench {
  readonly name: string
  /** What it measures, in half a line. */
  readonly about: string
  /**
   * Whether it changes what the market lists or what views hold of it, or measures how much the log holds: it gets a market
   * that was just loaded, and no other benchmark gets it afterwards. The others only move prices and leave the rest as it was.
   */
  readonly ownStage?: true
  run(context: BenchContext): Promise<Entry[]>
}
