import { HttpError } from '#infra/http/http-error.ts'
import type { ErrorCode } from '#schemas/api/error.ts'

/** A write that the rules forbid: thrown inside a transaction, so that it leaves nothing behind. */
export class Refusal extends HttpError {
  constructor(code: ErrorCode, detail: string, retryAfterSeconds?: number) {
    super(code, detail, retryAfterSeconds === undefined ? {} : { headers: ['Retry-After', String(retryAfterSeconds)] })
  }
}
