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
import { keepFigures } from './figures.ts'
import { openHandles, trackHandles } from './open-handles.ts'
import { openRunNotes } from './run-notes.ts'
import { runSeed } from './seeded-random.ts'
import { shareTestServers, stopTestServers } from './test-servers.ts'

openRunNotes()
// Properties draw what they try; the same every time, too.
fc.configureGlobal({ seed: runSeed() | 0 })

/** What is closing when the last hook returns has this long to be closed; a safety net. */
const CLOSE_LIMIT_MS = Number(process.env.MARKETLOG_TEST_CLOSE_LIMIT_MS ?? 60_000)

/** Runs once before the first test, in the process that mocha was called as. */
export async function mochaGlobalSetup(): Promise<void> {
  if (process.argv.includes('--parallel')) await shareTestServers()
}

/** Runs once after the last test, there too. */
export async function mochaGlobalTeardown(): Promise<void> {
  keepFigures()
  await stopTestServers()
}

/** Runs around the files of a process. */
export const mochaHooks: Mocha.RootHookObject = {
  beforeAll() {
    // Two fifths of the CPU of a file's own broker: 24.8 s with the second compiler, 14.2 s without. The run's broker lives long enough for it.
    process.env.KAFKA_JVM_PERFORMANCE_OPTS ??= FIRST_COMPILER_ONLY
    trackHandles()
  },
  async afterAll(this: Mocha.Context) {
    const left = await openHandles(CLOSE_LIMIT_MS)
    if (left.length === 0) return
    const files = new Set(this.test?.parent?.suites.map(({ file }) => file))
    throw new Error(`${[...files].join(', ')} left ${left.length} open: ${left.join('; ')}`)
  },
}
