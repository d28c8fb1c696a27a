/**
 * The result of a comparison of a view with the log.
 *
 * Invariant: every difference is counted; what is printed is bounded. Rows that could not be compared are counted by their
 * reason, so that an empty result means agreement.
 */

interface Difference {
  kind: 'missing' | 'unexpected' | 'different'
  /** Table and key. */
  row: string
  expected: string | null
  found: string | null
}

export interface Findings {
  compared: number
  differences: number
  /** The first of them. */
  examples: Difference[]
  not_compared: Record<string, number>
}

/** Why a row is left out that the role wrote after the log was read. */
export const CAME_MEANWHILE = 'came while they were compared'

/** Why a row is left out that nothing can be derived of any more. */
export const EXPIRED = 'rest on records that the log no longer holds'

const EXAMPLES = 50

export const noFindings = (): Findings => ({ compared: 0, differences: 0, examples: [], not_compared: {} })

/** Compares one row; undefined means that it is not there. */
export function compare(
  findings: Findings,
  row: string,
  expected: string | undefined,
  found: string | undefined,
): void {
  findings.compared += 1
  if (expected === found) return
  const kind = found === undefined ? 'missing' : expected === undefined ? 'unexpected' : 'different'
  findings.differences += 1
  if (findings.examples.length < EXAMPLES) {
    findings.examples.push({ kind, row, expected: expected ?? null, found: found ?? null })
  }
}

export function leaveOut(findings: Findings, reason: string, rows = 1): void {
  if (rows > 0) findings.not_compared[reason] = (findings.not_compared[reason] ?? 0) + rows
}
