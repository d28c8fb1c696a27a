/**
 * Asks the registry for advisories and signatures of the installed packages: `make audit`.
 *
 * Ends with 1 when there is an advisory or a signature that is missing or wrong, and with 69 when the registry does not
 * answer such questions: no answer is not a good one.
 */
import { spawnSync } from 'node:child_process'
import { type AuditOutcome, advisoriesOf, signaturesOf } from './audit-report.ts'

const LIMIT_MS = 120_000
const [FOUND, UNAVAILABLE] = [1, 69]

function ask(...args: string[]): string {
  const { stdout } = spawnSync('npm', ['audit', ...args, '--json'], { encoding: 'utf8', timeout: LIMIT_MS })
  return stdout ?? ''
}

const outcomes: [what: string, outcome: AuditOutcome][] = [
  ['advisories', advisoriesOf(ask())],
  ['signatures', signaturesOf(ask('signatures'))],
]
for (const [what, outcome] of outcomes) {
  if (outcome === 'unavailable') console.error(`${what}: the registry gives no answer; ask one that does`)
  else console.log(`${what}: ${outcome.length === 0 ? 'none against a package' : outcome.join('\n  ')}`)
}
const found = outcomes.some(([, outcome]) => outcome !== 'unavailable' && outcome.length > 0)
const isUnavailable = outcomes.some(([, outcome]) => outcome === 'unavailable')
process.exitCode = found ? FOUND : isUnavailable ? UNAVAILABLE : 0
