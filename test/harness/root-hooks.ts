/**
 * Mocha's root hooks: whatever the run has started ends with the run, and what a file has opened ends with the file.
 *
 * Loaded by .mocharc.json. A run of some files starts nothing by itself: unit tests alone need no servers. A run with
 * `--parallel` starts the servers first, in the process that outlives the workers, which find them by their addresses.
 * A worker takes one file at a time and runs these hooks for each; without workers they run once for all files. `exit` in
 * .mocharc.json ends a run that leaks after the leak is named: without it, the run would hang instead.
 */
import fc from 'fast-check'
import { FIRST_COMPILER_ONLY } from '#infra/stack/java.ts'
import { allowOpenHandles, expectNoOpenHandles } from './open-handles.ts'
import { summarizeRun } from './run-summary.ts'
import { runSeed } from './seeded-random.ts'
import { shareTestServers, stopTestServers } from './test-servers.ts'

// Properties draw what they try; the same every time, too.
fc.configureGlobal({ seed: runSeed() | 0 })

/** What is closing when the last hook returns has this long to be closed; a safety net. */
const CLOSE_LIMIT_MS = Number(process.env.MARKETLOG_TEST_CLOSE_LIMIT_MS ?? 60_000)

/** Runs once before the first test, in the process that mocha was called as. */
export async function mochaGlobalSetup(this: Mocha.Runner): Promise<void> {
  summarizeRun(this)
  if (process.argv.includes('--parallel')) await shareTestServers()
}

/** Runs once after the last test, there too. */
export const mochaGlobalTeardown = stopTestServers

/** Runs around the files of a process. */
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
