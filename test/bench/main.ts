/**
 * `make bench`: runs the benchmarks one after the other and shows what they measured.
 *
 * Progress goes to standard error, the result to standard output (a table on a terminal, JSON in a pipe) and to
 * `bench.json` in the run directory. Exit code 1 when a bar does not hold or a benchmark failed. Servers: those that
 * MARKETLOG_TEST_SERVERS names, else a set of its own that ends with the run.
 */
import { join } from 'node:path'
import { Command, InvalidArgumentError } from 'commander'
import { openLog } from '#infra/runtime/log.ts'
import { FIRST_COMPILER_ONLY } from '#infra/stack/java.ts'
import { openProgress, type Progress } from '#services/cli/progress.ts'
import { runDirectory } from '#services/cli/run-directory.ts'
import { listenForStop } from '#services/cli/stop-signals.ts'
import { stopTestServers, testServers } from '#test/harness/test-servers.ts'
import { BARS, type Bars } from './bars.ts'
import type { Bench } from './bench.ts'
import { openBenchPlatform } from './bench-platform.ts'
import { BENCHES } from './benches.ts'
import { compare, showComparison } from './compare.ts'
import { type Entry, judged, problemsOf } from './entry.ts'
import { keepResults, linesOf, provenance, showResults } from './report.ts'
import { runBenches } from './run-benches.ts'
import { FULL_SIZE, openStage, QUICK_SIZE } from './stage.ts'

const EXIT_MISSED = 1
const EXIT_STOPPED = 130

interface Options {
  only?: Bench[]
  quick?: boolean
  list?: boolean
  compare?: string
}

interface Run {
  benches: readonly Bench[]
  isQuick: boolean
  progress: Progress
  signal: AbortSignal
  root: string
}

// As under `make up`, which the figures are about.
process.env.KAFKA_JVM_PERFORMANCE_OPTS ??= FIRST_COMPILER_ONLY

const program = new Command('bench')
  .description('Measures the platform against limits that are measured in the same run.')
  .option('--only <names>', 'some benchmarks, separated by commas, in this order', namedBenches)
  .option('--quick', 'a short version to try a change with; its figures mean little and no bar judges them')
  .option('--compare <commit>', 'run a commit and this checkout in alternating pairs and show what moved')
  .option('--list', 'name the benchmarks and what they measure')
  .parse()

process.exitCode = await main(program.opts<Options>())

async function main({ only: benches = [...BENCHES], quick: isQuick = false, list, compare: commit }: Options) {
  if (list) {
    for (const { name, about } of BENCHES) process.stdout.write(`${name.padEnd(12)} ${about}\n`)
    return 0
  }
  const { root } = runDirectory(process.env)
  const progress = openProgress(process.stderr)
  const { signal } = listenForStop(name => progress.note(`${name}: stopping`))
  const run: Run = { benches, isQuick, progress, signal, root }
  try {
    return commit === undefined ? await measureAll(run) : await compareWith(commit, run)
  } catch (error) {
    if (!signal.aborted) throw error
    return EXIT_STOPPED
  } finally {
    progress.stop()
  }
}

function namedBenches(text: string): Bench[] {
  return text.split(',').map(name => {
    const bench = BENCHES.find(each => each.name === name)
    if (bench) return bench
    throw new InvalidArgumentError(`Known: ${BENCHES.map(each => each.name).join(', ')}.`)
  })
}

async function compareWith(commit: string, { root, benches, ...run }: Run): Promise<number> {
  const measuredOn = provenance()
  const compared = await compare({ ...run, commit, benches: benches.map(({ name }) => name) })
  const { before, failures, movements } = compared
  const { commit: after, machine } = measuredOn
  keepResults(root, 'bench-compare.json', { before, after, machine, failures, lines: movements })
  run.progress.stop()
  showComparison(process.stdout, compared)
  return failures.length > 0 || movements.some(({ verdict }) => verdict === 'worse') ? EXIT_MISSED : 0
}

async function measureAll(run: Run): Promise<number> {
  const measuredOn = provenance()
  const bars: Bars = run.isQuick ? {} : BARS
  const entries = judged(await measure(run), bars)
  // Also of a run that was cut short: what was measured by then took minutes.
  if (entries.length > 0) {
    keepResults(run.root, 'bench.json', linesOf(entries, measuredOn))
    showResults(process.stdout, entries, measuredOn)
  }
  if (run.signal.aborted) return EXIT_STOPPED
  const failures = entries.flatMap(({ name, failure }) => (failure === undefined ? [] : [`${name}: ${failure}`]))
  const isWhole = run.benches.length === BENCHES.length && failures.length === 0
  const problems = problemsOf(entries, bars, isWhole)
  for (const line of [...failures, ...problems]) process.stderr.write(`${line}\n`)
  return problems.length === 0 && entries.every(({ holds }) => holds !== false) ? 0 : EXIT_MISSED
}

async function measure({ benches, isQuick, progress, signal, root }: Run): Promise<Entry[]> {
  const log = openLog({ level: process.env.LOG_LEVEL ?? 'warn', name: 'bench' })
  const logs = join(root, 'bench-logs')
  const startedAt = performance.now()
  try {
    progress.step('starting the servers')
    const addresses = await testServers()
    const size = isQuick ? QUICK_SIZE : FULL_SIZE
    const entries = await runBenches(benches, {
      context: { isQuick, log, signal },
      openStage: say => openStage({ addresses, logs: join(logs, 'stage'), size, log, say }),
      openBenchPlatform: name => openBenchPlatform({ addresses, log, logs: join(logs, name) }),
      ...{ step: progress.step, note: progress.note },
    })
    progress.note(`${((performance.now() - startedAt) / 60_000).toFixed(1)} minutes`)
    return entries
  } finally {
    progress.step('stopping the servers')
    await stopTestServers()
    progress.stop()
  }
}
