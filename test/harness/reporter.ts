/**
 * Mocha's spec reporter, with the outcome once more in a line that any reader of logs knows: `12 passed, 0 failed`.
 *
 * Writes to standard output.
 */
import Mocha from 'mocha'

class Reporter extends Mocha.reporters.Spec {
  override epilogue(): void {
    super.epilogue()
    Mocha.reporters.Base.consoleLog('%d passed, %d failed', this.stats.passes, this.stats.failures)
  }
}

// Mocha takes what `require` returns.
export { Reporter as 'module.exports' }
