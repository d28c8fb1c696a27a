/**
 * What the write side of accounts refuses, by a code that schemas/api/error.ts gives a status.
 *
 * Thrown inside a transaction, so that a refused write leaves nothing behind, and answered by the API.
 * Invariant: a refusal is the client's to mend and says how; a bug or a lost database is never one.
 */
import type { ErrorCode } from '#schemas/api/error.ts'

/** A write that the rules forbid. */
export class Refusal extends Error {
  readonly code: ErrorCode
  readonly detail: string
  /** Whole seconds after which another try may pass, where time alone mends it. */
  readonly retryAfterSeconds: number | undefined

  constructor(code: ErrorCode, detail: string, retryAfterSeconds?: number) {
    super(`${code}: ${detail}`)
    this.code = code
    this.detail = detail
    this.retryAfterSeconds = retryAfterSeconds
  }
}
