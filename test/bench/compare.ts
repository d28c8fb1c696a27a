/**
 * `make bench COMPARE=<commit>`: runs the benchmarks of two checkouts in alternating pairs and shows what moved.
 *
 * Before is the commit, in a worktree of its own with its own packages; after is this checkout as it lies there. Invariant: worktree and
 * servers are gone when it resolves. A pair is one run of each side, one right after the other, so what the machine does for minutes is in
 * both; it gives a ratio, after by before. A line moved when all pairs agree on the direction, the median ratio is beyond the least
 * movement, and beyond {@link SPREAD_SHARE} of the spread between the pairs. A benchmark none of whose lines seems to have moved after
 * the first pairs ends there.
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
import { BARS, type Bars } from './bars.ts'
import { type Entry, median } from './entry.ts'

interface Comparison {
  commit: string
  benches: readonly string[]
  isQuick: boolean
  progress: Progress
  signal: AbortSignal
}

type Side = { name: 'before' | 'after'; checkout: string; runs: string }

export type RunLine = Pick<Entry, 'name' | 'value' | 'unit' | 'ratio'>

export interface RunPair {
  before: readonly RunLine[]
  after: readonly RunLine[]
}

/** The figures of a line are ratios to the baseline of the same run where the line has one. */
interface Movement {
  name: string
  unit: string
  before: number
  after: number
  /** Median of the pairs' ratios, after by before. */
  change: number
  verdict: 'better' | 'worse' | 'unmoved' | 'not comparable'
}

/** So few say which lines may have moved, so many whether they did. */
export const PAIRS = { first: 3, all: 8 }

/** Less is not looked for: of what has a baseline or counts CPU or memory, and of times of the clock alone. */
const LEAST = { steady: 0.05, clock: 0.1 }
const SPREAD_SHARE = 0.5
const CLOCK_UNITS = new Set(['ms', 's'])
const CHECKOUT = fileURLToPath(new URL('../../', import.meta.url))
const SHOWN = 120

/** A benchmark that fails on a side has no movements. */
export async function compare(comparison: Comparison) {
  const { commit, progress, signal } = comparison
  const before = git('rev-parse', '--verify', '--end-of-options', `${commit}^{commit}`)
  const folder = mkdtempSync(join(tmpdir(), 'marketlog-compare-'))
  const checkout = join(folder, 'checkout')
  const [found, failures]: [Movement[], string[]] = [[], []]
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
    for (const bench of comparison.benches) {
      const outcome = await compareBench(bench, sides, comparison)
      if (typeof outcome === 'string') failures.push(outcome)
      else found.push(...outcome)
    }
    return { before, movements: found, failures }
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
): Promise<Movement[] | string> {
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
        comparison.progress.note(`${bench} FAILED ${side.name}: ${failure}`)
        return `${bench}, ${side.name}: ${failure}`
      }
      pair[side.name] = lines
    }
    pairs.push(pair)
    found = movements(pairs, BARS)
    if (pairs.length === PAIRS.first && found.some(hasMoved)) wanted = PAIRS.all
  }
  const moved = found.filter(hasMoved).map(({ name, verdict }) => `${name}: ${verdict}`)
  const tookS = ((performance.now() - startedAt) / 1000).toFixed(0)
  comparison.progress.note(`${bench}: ${moved.join('; ') || 'nothing moved'} (${pairs.length} pairs, ${tookS} s)`)
  return found
}

const hasMoved = ({ verdict }: Movement): boolean => verdict === 'better' || verdict === 'worse'

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
  const lines = existsSync(result)
    ? (JSON.parse(readFileSync(result, 'utf8')) as (RunLine & { failure?: string })[])
    : []
  const failures = lines.flatMap(({ failure = [] }) => failure)
  if (lines.length === 0) failures.push(`it ended without a result after it said "${lastWord}"`)
  return { lines, failure: failures.join() }
}

/** Runs a command with the checkout's own Node first; rejects when it ends with another code than 0. */
async function ran(
  command: readonly string[],
  { cwd, signal, runs, say }: { cwd: string; signal: AbortSignal; runs?: string; say(line: string): void },
): Promise<void> {
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

export function showComparison(
  output: { write(text: string): unknown },
  { movements: all, failures }: Awaited<ReturnType<typeof compare>>,
): void {
  const table = new Table({ head: ['moved', 'before', 'after', '', 'change', ''] })
  const moved = all.filter(hasMoved)
  for (const { name, before, after, unit, change, verdict } of moved) {
    const figures = [before, after].map(figure => figure.toPrecision(4))
    table.push([name, ...figures, unit, `${((change - 1) * 100).toFixed(1)} %`, verdict])
  }
  if (moved.length > 0) output.write(`${table.toString()}\n`)
  const apart = all.filter(({ verdict }) => verdict === 'not comparable')
  for (const { name } of apart) output.write(`not comparable: ${name}\n`)
  for (const failure of failures) output.write(`failed: ${failure}\n`)
  output.write(`${moved.length} lines moved, ${all.length - moved.length - apart.length} did not\n`)
}

/** Decides which lines that have a bar moved; both sides measure a line in every pair, or it is not comparable. */
export function movements(pairs: readonly RunPair[], bars: Bars): Movement[] {
  const known = new Map(pairs.flatMap(({ before, after }) => [...before, ...after]).map(line => [line.name, line]))
  return [...known.values()].flatMap(({ name, unit }) => {
    const bar = Object.hasOwn(bars, name) ? bars[name] : undefined
    if (!bar) return []
    const linesOf = (side: 'before' | 'after') => pairs.map(pair => pair[side].find(line => line.name === name))
    const [before, after] = [linesOf('before'), linesOf('after')]
    const isRatio = [...before, ...after].every(line => line?.ratio != null)
    const figureOf = (line: RunLine | undefined) => (isRatio ? line?.ratio : line?.value) ?? Number.NaN
    const [former, latter] = [before.map(figureOf), after.map(figureOf)]
    // Two zeros are the same.
    const ratios = former.map((one, at) => (one === latter[at] ? 1 : (latter[at] ?? Number.NaN) / one))
    const least = CLOCK_UNITS.has(unit) && !isRatio ? LEAST.clock : LEAST.steady
    const verdict = verdictOf(ratios, least, 'atLeast' in bar)
    return [{ name, unit, before: median(former), after: median(latter), change: median(ratios), verdict }]
  })
}

function verdictOf(ratios: readonly number[], leastMovement: number, isHigherBetter: boolean): Movement['verdict'] {
  if (ratios.length === 0 || !ratios.every(ratio => Number.isFinite(ratio) && ratio > 0)) return 'not comparable'
  const logs = ratios.map(Math.log)
  const [least, middle, most] = [Math.min(...logs), median(logs), Math.max(...logs)]
  const agree = least > 0 || most < 0
  const floor = Math.max(Math.log1p(leastMovement), SPREAD_SHARE * (most - least))
  if (!agree || Math.abs(middle) <= floor) return 'unmoved'
  return middle > 0 === isHigherBetter ? 'better' : 'worse'
}
