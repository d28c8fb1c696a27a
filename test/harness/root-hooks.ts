/**
 * Mocha's root hooks: whatever the run has started ends with the run.
 *
 * Loaded by .mocharc.json. A run of some files starts nothing by itself: unit tests alone need no servers. A run with
 * `--parallel` starts the servers first, in the process that outlives the workers, which find them by their addresses.
 */
import { shareTestServers, stopTestServers } from './test-servers.ts'

// A broker of a quarter of an hour does not earn back what the second compiler costs: two fifths of its CPU in such a run.
process.env.KAFKA_JVM_PERFORMANCE_OPTS ??= '-XX:TieredStopAtLevel=1'

/** Runs once before the first test, in the process that mocha was called as. */
export async function mochaGlobalSetup(): Promise<void> {
  if (process.argv.includes('--parallel')) await shareTestServers()
}

/** Runs once after the last test, there too. */
export async function mochaGlobalTeardown(): Promise<void> {
  await stopTestServers()
}
