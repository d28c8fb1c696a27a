/**
 * What the write side of accounts refuses, by a code that schemas/api/error.ts gives a status.
 *
 * Thrown inside a transaction, so that a refused write leaves nothing behind, and answered by the API. Invariant: the
 * client can correct what is refused, and the text says how; a bug or a lost database is never a refusal.
 */
import type { ErrorCode } from '#schemas/api/error.ts'

/** A write that the rules forbid. */
export class Refusal extends Error {
  readonly code: ErrorCode
  readonly detail: string
  /** Whole seconds after which a retry may pass, where waiting suffices. */
  readonly retryAfterSeconds: number | undefined

  constructor(code: ErrorCode, detail: string, retryAfterSeconds?: number) {
    super(`${code}: ${detail}`)
    this.code = code
    this.detail = detail
    this.retryAfterSeconds = retryAfterSeconds
  }
}
