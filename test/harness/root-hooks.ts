/**
 * Mocha's root hooks: whatever the run has started ends with the run.
 *
 * Loaded by .mocharc.json. Starts nothing itself: a run of unit tests alone needs no servers.
 */
import { stopTestServers } from './test-servers.ts'

/** Runs once after the last test. */
export async function mochaGlobalTeardown(): Promise<void> {
  await stopTestServers()
}
