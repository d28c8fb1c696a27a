import { HttpError } from '#infra/http/http-error.ts'
import type { Violation } from '#schemas/api/error.ts'

/** A write that the rules forbid: thrown inside a transaction, so that it leaves nothing behind. */
export class Refusal extends HttpError {}

/** The portfolio is missing, or belongs to another account, which is not revealed. */
export const portfolioNotFound = (): Refusal =>
  new Refusal('PORTFOLIO_NOT_FOUND', 'This account has no portfolio with this id.')

/** An uploaded file that cannot be stored: the rows at fault, and the same members that a successful import has. */
export class CsvRefusal extends Refusal {
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
    super('VALIDATION_ERROR', detail, { members: { imported: 0, skipped: 0, unresolved, errors } })
  }
}
