/**
 * Runs benchmarks one after the other, and hands one loaded market from one to the next as long as it is as it was loaded.
 *
 * A benchmark that fails is a line of the result that does not hold, and the others run all the same; only the signal ends a run
 * early, and what was measured by then is kept. Invariant: a benchmark gets a market that was just loaded, or one that only
 * benchmarks used that leave it as it was; either way at rest, so that its figures do not depend on what ran before.
 */
import type { Progress } from '#services/cli/progress.ts'
import type { Bench, BenchContext } from './bench.ts'
import type { BenchPlatform } from './bench-platform.ts'
import { type Entry, failureEntry } from './entry.ts'
import type { Stage } from './stage.ts'

interface BenchRun extends Pick<Progress, 'step' | 'note'> {
  context: Omit<BenchContext, 'say' | 'stage' | 'platform'>
  openStage(say: BenchContext['say']): Promise<Stage>
  openBenchPlatform(name: string): Promise<BenchPlatform>
}

/** Runs them all, or those before the signal; the lines of the result. */
export async function runBenches(
  benches: readonly Bench[],
  { context, openStage, openBenchPlatform, step, note }: BenchRun,
): Promise<Entry[]> {
  const entries: Entry[] = []
  let kept: Promise<Stage> | undefined
  const drop = async (): Promise<void> => {
    // One that could not be opened has closed itself.
    const stage = await kept?.catch(() => undefined)
    kept = undefined
    await stage?.close()
  }
  for (const { name, about, ownStage, run } of benches) {
    if (context.signal.aborted) break
    const say = (text: string): void => step(`${name}: ${text}`)
    const stage = async (): Promise<Stage> => {
      if (ownStage) await drop()
      kept ??= openStage(say)
      const opened = await kept
      await opened.comeToRest()
      return opened
    }
    const startedAt = performance.now()
    const tookS = (): string => ((performance.now() - startedAt) / 1000).toFixed(0)
    let own: Promise<BenchPlatform> | undefined
    const platform = (): Promise<BenchPlatform> => {
      say('setting a namespace up')
      own = openBenchPlatform(name)
      return own
    }
    try {
      const work = run({ ...context, say, stage, platform })
      try {
        entries.push(...(await untilStopped(work, context.signal)))
      } finally {
        await (await own?.catch(() => undefined))?.close()
      }
      note(`${name}: ${about} (${tookS()} s)`)
      if (ownStage) await drop()
    } catch (error) {
      if (context.signal.aborted) break
      note(`${name} FAILED after ${tookS()} s: ${error instanceof Error ? error.stack : String(error)}`)
      entries.push(failureEntry(name, error))
      await drop()
    }
  }
  step('stopping the roles')
  await drop()
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
