/**
 * Runs benchmarks one after the other.
 *
 * One that fails is a line of the result that does not hold, and the others run all the same; only the signal
 * ends a run early, and what was measured by then is kept.
 */
import type { Bench, BenchContext, Entry } from './bench.ts'
import { failureEntry } from './entry.ts'
import { type Keepable, keepStage } from './stage-keeper.ts'

/** What the benchmarks of a run share. */
export interface BenchRun<S extends Keepable> {
  context: Omit<BenchContext<S>, 'say' | 'stage' | 'platform'>
  openStage(say: BenchContext['say']): Promise<S>
  openBenchPlatform(name: string): ReturnType<BenchContext['platform']>
  /** Says what is being done. */
  step(text: string): void
  /** A line that stays. */
  note(line: string): void
}

/** Runs them all, or those before the signal; the lines of the result. */
export async function runBenches<S extends Keepable>(
  benches: readonly Bench<S>[],
  { context, openStage, openBenchPlatform, step, note }: BenchRun<S>,
): Promise<Entry[]> {
  const entries: Entry[] = []
  let say = step
  const keeper = keepStage(() => openStage(text => say(text)))
  for (const bench of benches) {
    if (context.signal.aborted) break
    say = text => step(`${bench.name}: ${text}`)
    const startedAt = performance.now()
    const tookS = (): string => ((performance.now() - startedAt) / 1000).toFixed(0)
    const leavesStage = bench.ownStage !== true
    try {
      const work = bench.run({
        ...context,
        say: text => say(text),
        platform: () => openBenchPlatform(bench.name),
        stage: () => keeper.handOut(!leavesStage),
      })
      entries.push(...(await untilStopped(work, context.signal)))
      note(`${bench.name}: ${bench.about} (${tookS()} s)`)
      if (!leavesStage) await keeper.drop()
    } catch (error) {
      if (context.signal.aborted) break
      note(`${bench.name} FAILED after ${tookS()} s: ${error instanceof Error ? error.stack : String(error)}`)
      entries.push(failureEntry(bench.name, error))
      await keeper.drop()
    }
  }
  step('stopping the roles')
  await keeper.drop()
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
