/**
 * `marketlog demo`: the platform in the foreground, with sample calls and a status line.
 *
 * Writes the result to standard output and progress to standard error. Invariant: Ctrl-C, the end of the reader
 * of its output and the end of the process that started it all stop everything.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { openLog } from '#infra/runtime/log.ts'
import type { Environment } from '#infra/runtime/secret.ts'
import { CommandFailure } from './command-failure.ts'
import { countLiveAsks, findSampleItem } from './live-check.ts'
import { openProgress, type Progress } from './progress.ts'
import { readingGroups } from './reading-groups.ts'
import type { PlatformFile, RunDirectory } from './run-directory.ts'
import { runningSupervisor } from './running-supervisor.ts'
import { describePlatform } from './sample-calls.ts'
import { listenForStop } from './stop-signals.ts'
import { type LivePlatform, supervise } from './supervisor.ts'
import { show } from './up.ts'
import { openPlatformLag } from './wait-for-views.ts'

const TERMINAL_EVERY_MS = 2_000
const PIPE_EVERY_MS = 30_000
const PARENT_EVERY_MS = 1_000
/** A call counts against its key's limits, so the line asks seldom. */
const ASKS_EVERY_MS = 20_000

/** Runs the demo until it is stopped. */
export async function demo(directory: RunDirectory, environment: Environment): Promise<void> {
  const running = runningSupervisor(directory)
  if (running !== undefined) {
    throw new CommandFailure(
      `process ${running.pid} runs a platform from ${directory.root} already; run \`make down\` first`,
    )
  }
  const progress = openProgress(process.stderr)
  const stop = listenForStop(() => progress.step('stopping the platform'))
  process.stdout.on('error', () => stop.abort(new Error('the output is no longer read')))
  endWithParent(stop)
  try {
    await supervise({
      environment,
      directory,
      signal: stop.signal,
      report: report => show(progress, report),
      onLive: live => {
        progress.stop()
        void welcome(live.platform).then(() => followStatus(live, progress, stop.signal))
      },
    })
  } finally {
    progress.stop()
  }
  progress.note('everything is stopped; data and keys stay for the next start (`make clean` removes them)')
}

async function welcome(platform: PlatformFile): Promise<void> {
  process.stdout.write(describePlatform(platform, await findSampleItem(platform.base_url, platform.keys.quant)))
}

/** `make`, npm or a test runner that is killed does not reach its children. */
function endWithParent(stop: AbortController): void {
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid !== parent) stop.abort(new Error('the process that started this one is gone'))
  }, PARENT_EVERY_MS)
  timer.unref()
}

async function followStatus(live: LivePlatform, progress: Progress, signal: AbortSignal): Promise<void> {
  const { config, platform } = live
  const lagReader = await openPlatformLag(config, openLog({ level: 'silent', name: 'status' }))
  const everyMs = process.stderr.isTTY ? TERMINAL_EVERY_MS : PIPE_EVERY_MS
  let asks: number | undefined
  let askedAt = Number.NEGATIVE_INFINITY
  let before = { changes: await changesSoFar(lagReader), at: performance.now() }
  try {
    while (!signal.aborted) {
      await pause(everyMs, undefined, { signal })
      if (performance.now() - askedAt > ASKS_EVERY_MS) {
        asks = await countLiveAsks(platform.base_url, platform.keys.quant)
        askedAt = performance.now()
      }
      const lag = (await lagReader.read(readingGroups())).reduce((sum, each) => sum + each.lag, 0)
      const now = { changes: await changesSoFar(lagReader), at: performance.now() }
      const rate = ((now.changes - before.changes) / (now.at - before.at)) * 1000
      before = now
      const restarts = live.processes.reduce((sum, each) => sum + each.restarts(), 0)
      const parts = [
        `${asks === undefined ? 'the API does not answer' : `${asks.toLocaleString('en')} live asks`}`,
        `${Math.round(rate).toLocaleString('en')} changes/s`,
        `${lag.toLocaleString('en')} records to catch up`,
        ...(restarts > 0 ? [`${restarts} restarts`] : []),
      ]
      const line = `live: ${parts.join(' · ')}`
      if (process.stderr.isTTY) progress.step(line)
      else progress.note(line)
    }
  } catch (error) {
    if (!signal.aborted) progress.note(`the status line ended: ${error}`)
  } finally {
    await lagReader.close()
  }
}

async function changesSoFar(lagReader: Awaited<ReturnType<typeof openPlatformLag>>): Promise<number> {
  const ends = await lagReader.ends(['bookChanges'])
  return (ends.get('bookChanges') ?? []).reduce((sum, end) => sum + end, 0)
}
