/**
 * Mocha's root hooks: whatever the run has started ends with the run.
 *
 * Loaded by .mocharc.json. A run of some files starts nothing by itself: unit tests alone need no servers. A run with
 * `--parallel` starts the servers first, in the process that outlives the workers, which find them by their addresses.
 */
import { FIRST_COMPILER_ONLY } from '#infra/stack/java.ts'
import { shareTestServers, stopTestServers } from './test-servers.ts'

// Two fifths of the broker's CPU in a test that starts many roles: 24.8 s with the second compiler, 14.2 s without.
process.env.KAFKA_JVM_PERFORMANCE_OPTS ??= FIRST_COMPILER_ONLY

/** Runs once before the first test, in the process that mocha was called as. */
export async function mochaGlobalSetup(): Promise<void> {
  if (process.argv.includes('--parallel')) await shareTestServers()
}

/** Runs once after the last test, there too. */
export async function mochaGlobalTeardown(): Promise<void> {
  await stopTestServers()
}
