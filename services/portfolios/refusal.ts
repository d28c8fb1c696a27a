/**
 * What the portfolios' write side refuses, by a code that schemas/api/error.ts gives a status.
 *
 * Thrown inside a transaction, so that a refused write leaves nothing behind, and caught by the API, which
 * answers it. Invariant: the client can correct what is refused, and the text says how; a bug or a lost database never is one.
 */
import type { ErrorCode, Violation } from '#schemas/api/error.ts'

/** A write that the rules forbid. */
export class Refusal extends Error {
  readonly code: ErrorCode
  readonly detail: string | Violation[]

  constructor(code: ErrorCode, detail: string | Violation[]) {
    super(`${code}: ${typeof detail === 'string' ? detail : 'the request is not valid'}`)
    this.code = code
    this.detail = detail
  }
}

/** The portfolio is missing, or belongs to another account, which is not revealed. */
export const portfolioNotFound = (): Refusal =>
  new Refusal('PORTFOLIO_NOT_FOUND', 'This account has no portfolio with this id.')

/** An uploaded file that cannot be stored, with the rows that are at fault. */
export class CsvRefusal extends Refusal {
  /** What the answer holds beside code and detail: the same members that a successful import has. */
  readonly members: { imported: 0; skipped: 0; unresolved: string[]; errors: { row: number; message: string }[] }

  constructor(errors: { row: number; message: string }[], unresolved: string[]) {
    const detail = errors.map(
      ({ row, message }): Violation => ({
        type: 'value_error',
        loc: ['body', 'file', row],
        msg: `row ${row}: ${message}`,
        input: null,
        ctx: { row },
      }),
    )
    super('VALIDATION_ERROR', detail)
    this.members = { imported: 0, skipped: 0, unresolved, errors }
  }
}
