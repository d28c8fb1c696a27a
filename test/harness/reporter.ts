/**
 * Mocha's spec reporter, with the minutes of the longest files, the run's figures, what was absent, what failed in a line each,
 * and the outcome once more in a line that any reader of logs knows: `12 passed, 0 failed`. A log that is cut to its last lines still names what failed,
 * and one that ends early says why: each failure gives its reason when it happens.
 *
 * Writes to standard output.
 */
import { relative } from 'node:path'
import Mocha from 'mocha'
import { notedAbsences } from './absences.ts'
import { describeFigure, notedFigures } from './figures.ts'

const LONGEST_REASON = 200
const LONGEST_FILES = 10

class Reporter extends Mocha.reporters.Spec {
  /** Milliseconds by file, hooks included. */
  readonly #durations = new Map<string, number>()

  constructor(runner: Mocha.Runner, options?: Mocha.MochaOptions) {
    super(runner, options)
    const add = ({ file, duration = 0 }: Mocha.Runnable): void => {
      if (file) this.#durations.set(file, (this.#durations.get(file) ?? 0) + duration)
    }
    runner.on(Mocha.Runner.constants.EVENT_TEST_END, add)
    runner.on(Mocha.Runner.constants.EVENT_HOOK_END, add)
    runner.on(Mocha.Runner.constants.EVENT_TEST_FAIL, failed =>
      Mocha.reporters.Base.consoleLog('      failed: %s', describeFailure(failed)),
    )
  }

  override epilogue(): void {
    super.epilogue()
    const print = Mocha.reporters.Base.consoleLog
    const longest = [...this.#durations].toSorted(([, a], [, b]) => b - a)
    for (const [file, ms] of longest.slice(0, LONGEST_FILES))
      print('  %s min  %s', (ms / 60_000).toFixed(2), relative('', file))
    for (const line of [...notedFigures().map(describeFigure), ...notedAbsences()]) print('  %s', line)
    const { MARKETLOG_TEST_LOGS: logs } = process.env
    if (this.failures.length > 0 && logs !== undefined) print('  logs: %s', logs)
    for (const failed of this.failures) print('  failed: %s', describeFailure(failed))
    print('%d passed, %d failed', this.stats.passes, this.stats.failures)
  }
}

/** `gives a price: expected 1 to equal 2`, at most LONGEST_REASON characters of the error's first line. */
const describeFailure = (failed: Mocha.Test): string =>
  `${failed.fullTitle()}: ${failed.err?.message?.split('\n', 1)[0]?.slice(0, LONGEST_REASON) ?? 'no error'}`

// Mocha takes what `require` returns.
export { Reporter as 'module.exports' }
