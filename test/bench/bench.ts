/**
 * How benchmarks run: one after the other, on one loaded market as long as it is as it was loaded. What has a peer is measured in turns with
 * it, because one machine is never the same machine twice. A benchmark that fails is a line of the result that does not hold, and the others
 * run all the same; only the signal ends a run early.
 */
import type { ServerAddresses } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { Progress } from '#services/cli/progress.ts'
import { type Baseline, startBaseline } from './baseline.ts'
import { type BenchPlatform, openBenchPlatform } from './bench-platform.ts'
import { type Entry, failureEntry } from './entry.ts'
import { openStage, type Stage } from './stage.ts'

export interface BenchContext {
  /** A short version: less data and fewer turns, for trying a change; its figures mean little. */
  readonly isQuick: boolean
  readonly log: Log
  say(text: string): void
  /** The market at full size on real servers, with the book alone running; asked for once. */
  stage(): Promise<Stage>
  /** A namespace without a market, of the benchmark's own, which goes when it has ended. */
  platform(): Promise<BenchPlatform>
  /** Starts a program of baselines/, which ends with the benchmark at the latest. */
  baseline: typeof startBaseline
  readonly signal: AbortSignal
}

export interface Bench {
  readonly name: string
  readonly about: string
  /**
   * Whether it changes what the market lists or what views hold of it, or measures how much the log holds: it gets a market
   * that was just loaded, and no other benchmark gets it afterwards. The others only move prices and leave the rest as it was.
   */
  readonly ownStage?: true
  run(context: BenchContext): Promise<Entry[]>
}

/** Runs them all, or those before the signal; the lines of the result. */
export async function runBenches(
  benches: readonly Bench[],
  addresses: ServerAddresses,
  { progress, ...context }: Pick<BenchContext, 'isQuick' | 'log' | 'signal'> & { progress: Progress },
): Promise<Entry[]> {
  const entries: Entry[] = []
  let stage: Stage | undefined
  const drop = async (): Promise<void> => {
    const left = stage
    stage = undefined
    await left?.close()
  }
  for (const bench of benches) {
    if (context.signal.aborted) break
    const { name, about, ownStage } = bench
    const say = (text: string): void => progress.step(`${name}: ${text}`)
    const startedAt = performance.now()
    const tookS = (): string => ((performance.now() - startedAt) / 1000).toFixed(0)
    let own: BenchPlatform | undefined
    const baselines: Baseline[] = []
    const work = async (): Promise<Entry[]> => {
      const measured = await bench.run({
        ...context,
        say,
        async stage() {
          if (ownStage) await drop()
          stage ??= await openStage(addresses, { isQuick: context.isQuick, say })
          await stage.comeToRest()
          return stage
        },
        async platform() {
          say('setting a namespace up')
          own = await openBenchPlatform(addresses)
          return own
        },
        baseline(...named) {
          const started = startBaseline(...named)
          baselines.push(started)
          return started
        },
      })
      // A role that has ended by itself fails the benchmark.
      await stage?.stop()
      return measured
    }
    try {
      entries.push(...(await untilStopped(work(), context.signal)))
      progress.note(`${name}: ${about} (${tookS()} s)`)
      if (ownStage) await drop()
    } catch (error) {
      if (context.signal.aborted) break
      progress.note(`${name} FAILED after ${tookS()} s: ${error instanceof Error ? error.stack : String(error)}`)
      entries.push(failureEntry(name, error))
      await drop().catch(() => undefined)
    } finally {
      await Promise.all(baselines.map(started => started.stop()))
      await own?.close().catch((problem: Error) => entries.push(failureEntry(`${name}, its end`, problem)))
    }
  }
  progress.step('stopping the roles')
  await drop().catch((problem: Error) => progress.note(problem.message))
  return entries
}

/** The result of work, or the signal's reason: what the work still waits for is taken away right after. */
function untilStopped<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  if (signal.aborted) reject(signal.reason)
  else signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  // Nothing waits for the one that comes second.
  for (const one of [promise, work]) one.catch(() => undefined)
  return Promise.race([work, promise])
}
