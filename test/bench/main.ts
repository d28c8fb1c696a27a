/**
 * `make bench`: runs the benchmarks one after the other and shows what they measured.
 *
 * Progress goes to standard error, the result to standard output (a table on a terminal, JSON in a pipe) and to
 * `bench.json` in the run directory. Exit code 1 when a bar does not hold. Servers: those that
 * MARKETLOG_TEST_SERVERS names, else a set of its own that ends with the run.
 */
import { join } from 'node:path'
import { Command, InvalidArgumentError } from 'commander'
import { openLog } from '#infra/runtime/log.ts'
import { openProgress } from '#services/cli/progress.ts'
import { runDirectory } from '#services/cli/run-directory.ts'
import { listenForStop } from '#services/cli/stop-signals.ts'
import { stopTestServers, testServers } from '#test/harness/test-servers.ts'
import type { Bench, BenchContext, Entry } from './bench.ts'
import { alerts } from './benches/alerts.ts'
import { book } from './benches/book.ts'
import { candleReads } from './benches/candle-reads.ts'
import { candles, history } from './benches/clickhouse.ts'
import { feed } from './benches/feed.ts'
import { feedIdle } from './benches/feed-idle.ts'
import { feedSlow } from './benches/feed-slow.ts'
import { liveView } from './benches/live-view.ts'
import { market, marketReads } from './benches/market.ts'
import { memory } from './benches/memory.ts'
import { portfolio } from './benches/portfolio.ts'
import { prices } from './benches/prices.ts'
import { reads } from './benches/reads.ts'
import { rebuild } from './benches/rebuild.ts'
import { replay } from './benches/replay.ts'
import { restart } from './benches/restart.ts'
import { snapshots } from './benches/snapshots.ts'
import { visibility } from './benches/visibility.ts'
import { openPlace } from './place.ts'
import { keepResults, showResults } from './report.ts'
import { FULL_SIZE, openStage, QUICK_SIZE, type Stage } from './stage.ts'

const BENCHES: readonly Bench[] = [
  book,
  liveView,
  prices,
  reads,
  snapshots,
  candleReads,
  history,
  candles,
  visibility,
  replay,
  rebuild,
  restart,
  memory,
  feed,
  feedIdle,
  feedSlow,
  alerts,
  market,
  marketReads,
  portfolio,
]
const EXIT_MISSED = 1
const EXIT_STOPPED = 130

interface Options {
  only?: string[]
  quick?: boolean
  list?: boolean
}

const program = new Command('bench')
  .description('Measures the platform against limits that are measured in the same run.')
  .option('--only <names>', 'some benchmarks, separated by commas', knownNames)
  .option('--quick', 'a short version to try a change with; its figures mean little')
  .option('--list', 'name the benchmarks and what they measure')
  .parse()

const options = program.opts<Options>()
if (options.list) {
  for (const { name, about } of BENCHES) process.stdout.write(`${name.padEnd(12)} ${about}\n`)
} else process.exitCode = await run(options)

function knownNames(text: string): string[] {
  const names = text.split(',')
  const unknown = names.filter(name => !BENCHES.some(bench => bench.name === name))
  if (unknown.length > 0) throw new InvalidArgumentError(`Known: ${BENCHES.map(({ name }) => name).join(', ')}.`)
  return names
}

async function run({ only, quick = false }: Options): Promise<number> {
  const progress = openProgress(process.stderr)
  const log = openLog({ level: process.env.LOG_LEVEL ?? 'warn', name: 'bench' })
  const stop = listenForStop(signal => progress.note(`${signal}: stopping`))
  const chosen = BENCHES.filter(({ name }) => only === undefined || only.includes(name))
  const { root } = runDirectory(process.env)
  const entries: Entry[] = []
  let stage: Promise<Stage> | undefined
  try {
    progress.step('starting the servers')
    const addresses = await testServers()
    for (const bench of chosen) {
      stop.signal.throwIfAborted()
      const startedAt = performance.now()
      const say = (text: string): void => progress.step(`${bench.name}: ${text}`)
      const context: BenchContext = {
        ...{ isQuick: quick, log, say, signal: stop.signal },
        place: () => openPlace({ addresses, log, logs: join(root, 'bench-logs', bench.name) }),
        stage: () => {
          stage ??= openStage({
            addresses,
            logs: join(root, 'bench-logs'),
            size: quick ? QUICK_SIZE : FULL_SIZE,
            log,
            say,
          })
          return stage
        },
      }
      entries.push(...(await untilStopped(bench.run(context), stop.signal)))
      progress.note(`${bench.name}: ${bench.about} (${((performance.now() - startedAt) / 1000).toFixed(0)} s)`)
    }
  } catch (error) {
    if (!stop.signal.aborted) throw error
    return EXIT_STOPPED
  } finally {
    progress.step('stopping the roles and servers')
    const opened = await stage?.catch(() => undefined)
    await opened?.close()
    await stopTestServers()
    progress.stop()
    // Also of a run that was cut short: what was measured by then took minutes.
    if (entries.length > 0) {
      keepResults(root, entries)
      showResults(process.stdout, entries)
    }
  }
  return entries.every(({ holds }) => holds) ? 0 : EXIT_MISSED
}

/** The result of work, or the signal's reason: what the work still waits for is taken away right after. */
function untilStopped<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  // Whichever comes second has nobody who waits for it.
  for (const one of [promise, work]) one.catch(() => undefined)
  return Promise.race([work, promise])
}
