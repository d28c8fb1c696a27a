/**
 * Mocha's root hooks: whatever the run has started ends with the run, and what a file has opened ends with the file.
 *
 * A run with `--parallel` starts the servers first, in the process that outlives the workers, which find them by their addresses; a worker
 * runs these hooks for each file. `exit` in .mocharc.json ends a run that leaks after the leak is named.
 */
import { relative } from 'node:path'
import fc from 'fast-check'
import Mocha from 'mocha'
import { FIRST_COMPILER_ONLY } from '#infra/stack/java.ts'
import { allowOpenHandles, expectNoOpenHandles } from './open-handles.ts'
import { runSeed } from './seeded-random.ts'
import { shareTestServers, stopTestServers } from './test-servers.ts'

// Properties draw what they try; the same every time, too.
fc.configureGlobal({ seed: runSeed() | 0 })

/** For what is closing when the last hook returns; a safety net. */
const CLOSE_LIMIT_MS = Number(process.env.MARKETLOG_TEST_CLOSE_LIMIT_MS ?? 60_000)

const LONGEST_REASON = 200
const LONGEST_FILES = 10

/** Runs once before the first test, in the process that mocha was called as. */
export async function mochaGlobalSetup(this: Mocha.Runner): Promise<void> {
  summarizeRun(this)
  if (process.argv.includes('--parallel')) await shareTestServers()
}

export const mochaGlobalTeardown = stopTestServers

export const mochaHooks: Mocha.RootHookObject = {
  async beforeAll(this: Mocha.Context) {
    // Two fifths of the CPU of a file's own broker: 24.8 s with the second compiler, 14.2 s without. The run's broker lives long enough for it.
    process.env.KAFKA_JVM_PERFORMANCE_OPTS ??= FIRST_COMPILER_ONLY
    await allowOpenHandles()
    for (const suite of this.test?.parent?.suites ?? []) endWithoutOpenHandles(suite)
  },
}

/** Added only once the suite's own hooks run, and so after those that they add. */
function endWithoutOpenHandles(suite: Mocha.Suite): void {
  suite.afterAll(() => {
    suite.afterAll('nothing is left open', () => expectNoOpenHandles(CLOSE_LIMIT_MS, suite.file ?? suite.title))
  })
}

/**
 * Prints a run's failures as they come and, once it has ended, the minutes of the longest files, what failed in a line each, and the
 * outcome in a line that any reader of logs knows: `12 passed, 0 failed`. A log that is cut to its last lines still names what
 * failed, and one that ends early says why.
 */
function summarizeRun(runner: Mocha.Runner): void {
  const { EVENT_TEST_END, EVENT_HOOK_END, EVENT_TEST_FAIL, EVENT_RUN_END } = Mocha.Runner.constants
  const print = Mocha.reporters.Base.consoleLog
  const failures: string[] = []
  /** Milliseconds by file, hooks included. */
  const durations = new Map<string, number>()
  const add = ({ file, duration = 0 }: Mocha.Runnable): void => {
    if (file) durations.set(file, (durations.get(file) ?? 0) + duration)
  }
  runner.on(EVENT_TEST_END, add).on(EVENT_HOOK_END, add)
  runner.on(EVENT_TEST_FAIL, (failed, error: Error) => {
    failures.push(
      `${failed.fullTitle()}: ${(error.message || 'no message').split('\n', 1)[0]?.slice(0, LONGEST_REASON)}`,
    )
    print('      failed: %s', failures.at(-1))
  })
  runner.once(EVENT_RUN_END, () => {
    const longest = [...durations].toSorted(([, a], [, b]) => b - a).slice(0, LONGEST_FILES)
    for (const [file, ms] of longest) print('  %s min  %s', (ms / 60_000).toFixed(2), relative('', file))
    const { MARKETLOG_TEST_LOGS: logs } = process.env
    if (failures.length > 0 && logs !== undefined) print('  logs: %s', logs)
    for (const failure of failures) print('  failed: %s', failure)
    print('%d passed, %d failed', runner.stats?.passes, failures.length)
  })
}
