/**
 * `marketlog rebuild VIEW`: rebuilds a view from the log while the old one is read and written, then switches to it.
 *
 * How, and why that is safe: streams/runner/build.ts. Alerts keep no view but the role's own state:
 * streams/alert-triggers/rebuild.ts.
 */
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { CommandFailure, exitCodes, messageOf } from '../command-failure.ts'
import { openProgress } from '../progress.ts'
import { type Output, write } from './output.ts'
import { viewOf } from './views.ts'

/** Rebuilds; prints the result. */
export async function rebuild(
  config: PlatformConfig,
  log: Log,
  name: string,
  output: Output,
  { acceptLoss, signal }: { acceptLoss: boolean; signal: AbortSignal },
): Promise<void> {
  const progress = openProgress(process.stderr)
  const startedAt = performance.now()
  const onProgress = (step: string): void => progress.step(`rebuilding ${name}: ${step}`)
  try {
    const result = await viewOf(name).rebuild({ config, log, onProgress, signal, acceptLoss })
    const seconds = Number(((performance.now() - startedAt) / 1000).toFixed(1))
    await write(output, `${JSON.stringify({ view: name, seconds, ...result })}\n`)
  } catch (error) {
    if (!signal.aborted) throw new CommandFailure(`${name} is as it was: ${messageOf(error)}`, exitCodes.failed, error)
    throw new CommandFailure(`stopped; ${name} is as it was`, exitCodes.stoppedBySignal)
  } finally {
    progress.stop()
  }
}
