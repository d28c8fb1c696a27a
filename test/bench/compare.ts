/**
 * `make bench COMPARE=<commit>`: runs the benchmarks of two checkouts in alternating pairs and shows what moved.
 *
 * Before is the commit, in a worktree of its own with its own packages; after is this checkout as it lies there. Both run on
 * the same servers, one benchmark at a time, and who comes first alternates. A benchmark none of whose lines seems to have
 * moved after the first pairs ends there. Invariant: worktree and servers are gone when it resolves.
 */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import Table from 'cli-table3'
import type { Progress } from '#services/cli/progress.ts'
import { shareTestServers, stopTestServers } from '#test/harness/test-servers.ts'
import { BARS } from './bars.ts'
import { type Movement, movements, PAIRS, type RunLine, type RunPair } from './comparison.ts'

export interface Comparison {
  commit: string
  benches: readonly string[]
  isQuick: boolean
  progress: Progress
  signal: AbortSignal
}

/** What came out; a benchmark that fails on a side has no lines. */
export interface Compared {
  before: string
  movements: Movement[]
  failures: string[]
}

interface Side {
  name: 'before' | 'after'
  checkout: string
  runs: string
}

type SideLine = RunLine & { failure?: string }

const CHECKOUT = fileURLToPath(new URL('../../', import.meta.url))
const SHOWN = 120

export async function compare(comparison: Comparison): Promise<Compared> {
  const { commit, progress, signal } = comparison
  const before = git('rev-parse', '--verify', '--end-of-options', `${commit}^{commit}`)
  const folder = mkdtempSync(join(tmpdir(), 'marketlog-compare-'))
  const checkout = join(folder, 'checkout')
  const compared: Compared = { before, movements: [], failures: [] }
  try {
    progress.step(`checking ${before.slice(0, 10)} out`)
    git('worktree', 'add', '--quiet', '--detach', checkout, before)
    progress.step('installing its packages')
    await ran(['sh', 'services/cli/install.sh'], { cwd: checkout, signal, say: progress.step })
    progress.step('starting the servers')
    await shareTestServers()
    const sides: Side[] = [
      { name: 'before', checkout, runs: join(folder, 'before') },
      { name: 'after', checkout: CHECKOUT, runs: join(folder, 'after') },
    ]
    for (const bench of comparison.benches) await compareBench(bench, sides, comparison, compared)
    return compared
  } finally {
    progress.step('stopping the servers')
    await stopTestServers()
    if (existsSync(checkout)) git('worktree', 'remove', '--force', checkout)
    rmSync(folder, { recursive: true, force: true })
  }
}

const git = (...args: string[]): string =>
  execFileSync('git', ['-C', CHECKOUT, ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }).trim()

async function compareBench(
  bench: string,
  sides: readonly Side[],
  comparison: Comparison,
  compared: Compared,
): Promise<void> {
  const pairs: RunPair[] = []
  const startedAt = performance.now()
  let wanted = PAIRS.first
  let found: Movement[] = []
  while (pairs.length < wanted) {
    const pair: RunPair = { before: [], after: [] }
    // Who comes first differs: a machine that warms up or tires does so for both.
    for (const side of pairs.length % 2 === 0 ? sides : sides.toReversed()) {
      const what = `${bench}: pair ${pairs.length + 1} of ${wanted}, ${side.name}`
      const { lines, failure } = await runOf(bench, side, comparison, what)
      if (failure !== '') {
        compared.failures.push(`${bench}, ${side.name}: ${failure}`)
        comparison.progress.note(`${bench} FAILED ${side.name}: ${failure}`)
        return
      }
      pair[side.name] = lines
    }
    pairs.push(pair)
    found = movements(pairs, BARS)
    if (pairs.length === PAIRS.first && found.some(hasMoved)) wanted = PAIRS.all
  }
  compared.movements.push(...found)
  const moved = found.filter(hasMoved).map(({ name, verdict }) => `${name}: ${verdict}`)
  const tookS = ((performance.now() - startedAt) / 1000).toFixed(0)
  comparison.progress.note(`${bench}: ${moved.join('; ') || 'nothing moved'} (${pairs.length} pairs, ${tookS} s)`)
}

const hasMoved = ({ verdict }: Movement): boolean => verdict === 'better' || verdict === 'worse'

/** The lines of one run, or why it has none. */
async function runOf(bench: string, { checkout, runs }: Side, { isQuick, progress, signal }: Comparison, what: string) {
  mkdirSync(runs, { recursive: true })
  const result = join(runs, 'bench.json')
  rmSync(result, { force: true })
  const args = ['test/bench/main.ts', '--only', bench, ...(isQuick ? ['--quick'] : [])]
  let lastWord = ''
  const say = (line: string): void => {
    if (line.trim() === '') return
    lastWord = line.slice(0, SHOWN).replace(/ \(\d+ s\)$/, '')
    progress.step(`${what}: ${lastWord}`)
  }
  // A bar that is missed is no failure here: the result counts.
  await ran(['node', ...args], { cwd: checkout, signal, say, runs }).catch(() => signal.throwIfAborted())
  const lines = existsSync(result) ? (JSON.parse(readFileSync(result, 'utf8')) as SideLine[]) : []
  const failures = lines.flatMap(({ failure = [] }) => failure)
  if (lines.length === 0) failures.push(`it ended without a result after it said "${lastWord}"`)
  return { lines, failure: failures.join() }
}

interface CommandOptions {
  cwd: string
  signal: AbortSignal
  runs?: string
  say(line: string): void
}

/** Runs a command with the checkout's own Node first; rejects when it ends with another code than 0. */
async function ran(command: readonly string[], { cwd, signal, runs, say }: CommandOptions): Promise<void> {
  signal.throwIfAborted()
  const [program = '', ...args] = command
  const path = `${join(cwd, 'node_modules/.bin')}${delimiter}${process.env.PATH}`
  const env = { ...process.env, PATH: path, ...(runs !== undefined && { MARKETLOG_RUN_DIR: runs }) }
  const child = spawn(program, args, { cwd, env, stdio: ['ignore', 'ignore', 'pipe'] })
  const end = (): void => void child.kill('SIGTERM')
  signal.addEventListener('abort', end, { once: true })
  createInterface({ input: child.stderr }).on('line', say)
  const [code] = (await once(child, 'close')) as [number | null]
  signal.removeEventListener('abort', end)
  signal.throwIfAborted()
  if (code !== 0) throw new Error(`${command.join(' ')} ended with ${code}`)
}

export function showComparison(output: { write(text: string): unknown }, { movements: all, failures }: Compared): void {
  const table = new Table({
    head: ['moved', 'before', 'after', '', 'change', 'of the pairs', ''],
    colAligns: ['left', 'right', 'right', 'left', 'right', 'right', 'left'],
  })
  const moved = all.filter(hasMoved)
  for (const { name, before, after, unit, is_ratio: isRatio, change, spread, verdict } of moved) {
    const range = `${percent(spread.min)} to ${percent(spread.max)}`
    const figures = [before, after].map(figure => figure.toPrecision(4))
    table.push([name, ...figures, isRatio ? 'of its baseline' : unit, percent(change), range, verdict])
  }
  if (moved.length > 0) output.write(`${table.toString()}\n`)
  const apart = all.filter(({ verdict }) => verdict === 'not comparable')
  for (const { name } of apart) output.write(`not comparable: ${name}\n`)
  for (const failure of failures) output.write(`failed: ${failure}\n`)
  output.write(`${moved.length} lines moved, ${all.length - moved.length - apart.length} did not\n`)
}

const percent = (ratio: number): string => `${ratio < 1 ? '' : '+'}${((ratio - 1) * 100).toFixed(1)} %`
