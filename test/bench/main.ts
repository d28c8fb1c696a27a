/**
 * `make bench`: runs the benchmarks one after the other and shows what they measured; the result goes to standard output (a table on a
 * terminal, JSON in a pipe) and to `bench.json` in the run directory. Exit code 1 when a bar does not hold or a benchmark failed.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { availableParallelism, cpus, totalmem } from 'node:os'
import { join } from 'node:path'
import Table from 'cli-table3'
import { Command, InvalidArgumentError } from 'commander'
import { openLog } from '#infra/runtime/log.ts'
import { FIRST_COMPILER_ONLY } from '#infra/stack/java.ts'
import { replaceFile } from '#infra/stack/processes.ts'
import { openProgress, type Progress } from '#services/cli/progress.ts'
import { runDirectory } from '#services/cli/run-directory.ts'
import { listenForStop } from '#services/cli/stop-signals.ts'
import { stopTestServers, testServers } from '#test/harness/test-servers.ts'
import { BARS, type Bars } from './bars.ts'
import { type Bench, runBenches } from './bench.ts'
import { abuse } from './benches/abuse.ts'
import { alerts } from './benches/alerts.ts'
import { book } from './benches/book.ts'
import { candleReads } from './benches/candle-reads.ts'
import { consolePage } from './benches/console.ts'
import { cost } from './benches/cost.ts'
import { feed } from './benches/feed.ts'
import { feedIdle } from './benches/feed-idle.ts'
import { feedResume } from './benches/feed-resume.ts'
import { feedSlow } from './benches/feed-slow.ts'
import { market, marketReads } from './benches/market.ts'
import { portfolio } from './benches/portfolio.ts'
import { reads } from './benches/reads.ts'
import { rebuild } from './benches/rebuild.ts'
import { replay } from './benches/replay.ts'
import { restart } from './benches/restart.ts'
import { revocation } from './benches/revocation.ts'
import { candles, history, liveView } from './benches/sinks.ts'
import { snapshots } from './benches/snapshots.ts'
import { visibility } from './benches/visibility.ts'
import { compare, showComparison } from './compare.ts'
import { type Entry, judged, problemsOf } from './entry.ts'

/** Those that share a loaded market come first, then those that load one each, then those that need none: any other order only loads more often. */
const BENCHES: readonly Bench[] = [
  book,
  liveView,
  snapshots,
  history,
  candles,
  rebuild,
  reads,
  visibility,
  consolePage,
  replay,
  restart,
  abuse,
  cost,
  alerts,
  market,
  marketReads,
  candleReads,
  feed,
  feedIdle,
  feedResume,
  feedSlow,
  portfolio,
  revocation,
]

const EXIT_MISSED = 1
const EXIT_STOPPED = 130
const READABLE_BY_ALL = 0o644
/** More digits would pretend to a precision that no measurement here has. */
const SHOWN_DIGITS = 4
const GIB = 2 ** 30

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

process.exitCode = await main(program.opts())

async function main(options: { only?: Bench[]; quick?: boolean; list?: boolean; compare?: string }): Promise<number> {
  if (options.list) {
    for (const { name, about } of BENCHES) process.stdout.write(`${name.padEnd(12)} ${about}\n`)
    return 0
  }
  const { only: benches = BENCHES, quick: isQuick = false, compare: commit } = options
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
  const { commit: after, machine } = provenance()
  const compared = await compare({ ...run, commit, benches: benches.map(({ name }) => name) })
  const { before, failures, movements } = compared
  keepResults(root, 'bench-compare.json', { before, after, machine, failures, lines: movements })
  run.progress.stop()
  showComparison(process.stdout, compared)
  return failures.length > 0 || movements.some(({ verdict }) => verdict === 'worse') ? EXIT_MISSED : 0
}

async function measureAll({ benches, isQuick, progress, signal, root }: Run): Promise<number> {
  const measuredOn = provenance()
  const bars: Bars = isQuick ? {} : BARS
  const log = openLog({ level: process.env.LOG_LEVEL ?? 'warn', name: 'bench' })
  const startedAt = performance.now()
  let measured: Entry[]
  try {
    progress.step('starting the servers')
    measured = await runBenches(benches, await testServers(), { isQuick, log, signal, progress })
    progress.note(`${((performance.now() - startedAt) / 60_000).toFixed(1)} minutes`)
  } finally {
    progress.step('stopping the servers')
    await stopTestServers()
    progress.stop()
  }
  const entries = judged(measured, bars)
  // Also of a run that was cut short: what was measured by then took minutes.
  if (entries.length > 0) {
    const lines = entries.map(entry => ({ ...entry, ...measuredOn }))
    keepResults(root, 'bench.json', lines)
    process.stdout.write(process.stdout.isTTY ? `${tableOf(entries)}\n` : asJson(lines))
  }
  if (signal.aborted) return EXIT_STOPPED
  const failures = entries.flatMap(({ name, failure }) => (failure === undefined ? [] : [`${name}: ${failure}`]))
  const isWhole = benches.length === BENCHES.length && failures.length === 0
  const problems = problemsOf(entries, bars, isWhole)
  for (const line of [...failures, ...problems]) process.stderr.write(`${line}\n`)
  return problems.length === 0 && entries.every(({ holds }) => holds !== false) ? 0 : EXIT_MISSED
}

/** Machine and commit, as every line of bench.json carries them; a commit that the checkout differs from ends with `-dirty`. */
function provenance() {
  const describe = ['-C', import.meta.dirname, 'describe', '--always', '--dirty', '--exclude=*']
  const { stdout } = spawnSync('git', describe, { encoding: 'utf8' })
  const cpu = cpus()[0]?.model.trim() ?? 'unknown'
  const machine = { cores: availableParallelism(), cpu, memory_gib: totalmem() / GIB, node: process.version }
  return { machine, commit: stdout?.trim() || null }
}

function keepResults(directory: string, file: string, results: unknown): void {
  mkdirSync(directory, { recursive: true })
  replaceFile(join(directory, file), asJson(results), READABLE_BY_ALL)
}

function asJson(results: unknown): string {
  return `${JSON.stringify(results, null, 2)}\n`
}

function tableOf(entries: readonly Entry[]): string {
  const table = new Table({
    head: ['measured', 'value', 'unit', 'against', 'ratio', 'bar', ''],
    colAligns: ['left', 'right', 'left', 'right', 'right', 'right', 'left'],
  })
  for (const { name, value, unit, against, ratio, bar, better, holds } of entries) {
    const limit = bar === null ? '' : `${better === 'higher' ? '>=' : '<='} ${figure(bar)}`
    const verdict = holds === null ? '' : holds ? 'holds' : 'MISSED'
    table.push([name, figure(value), unit, figure(against), figure(ratio), limit, verdict])
  }
  return table.toString()
}

function figure(value: number | null): string {
  return value === null ? '' : value.toLocaleString('en', { maximumSignificantDigits: SHOWN_DIGITS })
}
