/**
 * The end of a run, after what mocha's spec reporter prints: the minutes of the longest files, what failed in a line each, and the
 * outcome in a line that any reader of logs knows: `12 passed, 0 failed`. A log that is cut to its last lines still names what
 * failed, and one that ends early says why: each failure gives its reason when it happens.
 */
import { relative } from 'node:path'
import Mocha from 'mocha'

const LONGEST_REASON = 200
const LONGEST_FILES = 10

/** Prints a run's failures as they come, and its summary once it has ended. */
export function summarizeRun(runner: Mocha.Runner): void {
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
