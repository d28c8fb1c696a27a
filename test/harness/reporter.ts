/**
 * Mocha's spec reporter, with the run's figures, what was absent, what failed in a line each, and the outcome once more in
 * a line that any reader of logs knows: `12 passed, 0 failed`. A log that is cut to its last lines still names what failed,
 * and one that ends early says why: each failure gives its reason when it happens.
 *
 * Writes to standard output.
 */
import Mocha from 'mocha'
import { notedAbsences } from './absences.ts'
import { describeFigure, notedFigures } from './figures.ts'

const LONGEST_REASON = 200

class Reporter extends Mocha.reporters.Spec {
  constructor(runner: Mocha.Runner, options?: Mocha.MochaOptions) {
    super(runner, options)
    runner.on(Mocha.Runner.constants.EVENT_TEST_FAIL, failed =>
      Mocha.reporters.Base.consoleLog('      failed: %s', describeFailure(failed)),
    )
  }

  override epilogue(): void {
    super.epilogue()
    for (const line of [...notedFigures().map(describeFigure), ...notedAbsences()])
      Mocha.reporters.Base.consoleLog('  %s', line)
    for (const failed of this.failures) Mocha.reporters.Base.consoleLog('  failed: %s', describeFailure(failed))
    Mocha.reporters.Base.consoleLog('%d passed, %d failed', this.stats.passes, this.stats.failures)
  }
}

/** `gives a price: expected 1 to equal 2`, at most LONGEST_REASON characters of the error's first line. */
const describeFailure = (failed: Mocha.Test): string =>
  `${failed.fullTitle()}: ${failed.err?.message?.split('\n', 1)[0]?.slice(0, LONGEST_REASON) ?? 'no error'}`

// Mocha takes what `require` returns.
export { Reporter as 'module.exports' }
