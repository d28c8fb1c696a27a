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
import { BARS } from './bars.ts'
import { setBars } from './bars-file.ts'
import type { Bench, Entry } from './bench.ts'
import { openBenchPlatform } from './bench-platform.ts'
import { BENCHES } from './benches.ts'
import { compare, keepComparison, showComparison } from './compare.ts'
import { judged, problemsOf } from './judge.ts'
import { provenance } from './provenance.ts'
import { keepResults, showResults } from './report.ts'
import { runBenches } from './run-benches.ts'
import { FULL_SIZE, openStage, QUICK_SIZE } from './stage.ts'

const EXIT_MISSED = 1
const EXIT_STOPPED = 130

interface Options {
  only?: Bench[]
  quick?: boolean
  list?: boolean
  setBars?: string
  compare?: string
}

// As under `make up`, which the figures are about.
process.env.KAFKA_JVM_PERFORMANCE_OPTS ??= FIRST_COMPILER_ONLY

const program = new Command('bench')
  .description('Measures the platform against limits that are measured in the same run.')
  .option('--only <names>', 'some benchmarks, separated by commas, in this order', namedBenches)
  .option('--quick', 'a short version to try a change with; its figures mean little and no bar judges them')
  .option('--compare <commit>', 'run a commit and this checkout in alternating pairs and show what moved')
  .option('--set-bars <files>', 'set bars.ts from the results of runs (bench.json), separated by commas')
  .option('--list', 'name the benchmarks and what they measure')
  .parse()

process.exitCode = await main(program.opts<Options>())

async function main(options: Options): Promise<number> {
  if (options.list) {
    for (const { name, about } of BENCHES) process.stdout.write(`${name.padEnd(12)} ${about}\n`)
    return 0
  }
  if (options.setBars !== undefined) {
    process.stdout.write(`${setBars(options.setBars.split(','))} bars are set\n`)
    return 0
  }
  return options.compare === undefined ? run(options) : compareWith(options.compare, options)
}

async function compareWith(commit: string, { only, quick = false }: Options): Promise<number> {
  const measuredOn = provenance()
  const { root } = runDirectory(process.env)
  const progress = openProgress(process.stderr)
  const stop = listenForStop(signal => progress.note(`${signal}: stopping`))
  const benches = (only ?? BENCHES).map(({ name }) => name)
  try {
    const compared = await compare({ commit, benches, isQuick: quick, progress, signal: stop.signal })
    keepComparison(root, compared, measuredOn)
    progress.stop()
    showComparison(process.stdout, compared)
    const isWorse = compared.movements.some(({ verdict }) => verdict === 'worse')
    return isWorse || compared.failures.length > 0 ? EXIT_MISSED : 0
  } catch (error) {
    if (!stop.signal.aborted) throw error
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

async function run({ only, quick = false }: Options): Promise<number> {
  const measuredOn = provenance()
  const { root } = runDirectory(process.env)
  const progress = openProgress(process.stderr)
  const stop = listenForStop(signal => progress.note(`${signal}: stopping`))
  const measured = await measure({ only, quick }, { progress, logs: join(root, 'bench-logs'), signal: stop.signal })
  const entries = judged(measured, quick ? {} : BARS)
  // Also of a run that was cut short: what was measured by then took minutes.
  if (entries.length > 0) {
    keepResults(root, entries, measuredOn)
    showResults(process.stdout, entries, measuredOn)
  }
  if (stop.signal.aborted) return EXIT_STOPPED
  const failures = entries.flatMap(({ name, failure }) => (failure === undefined ? [] : [`${name}: ${failure}`]))
  const isWhole = only === undefined && failures.length === 0
  const problems = quick ? [] : problemsOf(entries, BARS, isWhole)
  for (const line of [...failures, ...problems]) process.stderr.write(`${line}\n`)
  return problems.length === 0 && entries.every(({ holds }) => holds !== false) ? 0 : EXIT_MISSED
}

async function measure(
  { only, quick = false }: Options,
  { progress, logs, signal }: { progress: Progress; logs: string; signal: AbortSignal },
): Promise<Entry[]> {
  const log = openLog({ level: process.env.LOG_LEVEL ?? 'warn', name: 'bench' })
  const size = quick ? QUICK_SIZE : FULL_SIZE
  const startedAt = performance.now()
  try {
    progress.step('starting the servers')
    const addresses = await testServers()
    const entries = await runBenches(only ?? BENCHES, {
      context: { isQuick: quick, log, signal },
      openStage: say => openStage({ addresses, logs: join(logs, 'stage'), size, log, say }),
      openBenchPlatform: name => openBenchPlatform({ addresses, log, logs: join(logs, name) }),
      step: text => progress.step(text),
      note: line => progress.note(line),
    })
    progress.note(`${((performance.now() - startedAt) / 60_000).toFixed(1)} minutes`)
    return entries
  } finally {
    progress.step('stopping the servers')
    await stopTestServers()
    progress.stop()
  }
}
