import type { ErrorCode, Violation } from './error.ts'

/** A write that the rules forbid, thrown inside its transaction: a refused write leaves nothing behind. */
export class Refusal extends Error {
  readonly code: ErrorCode
  readonly detail: string | Violation[]
  /** Whole seconds after which a retry may pass, where waiting suffices. */
  readonly retryAfterSeconds: number | undefined
  /** What the answer holds beside code and detail. */
  readonly members: object | undefined

  constructor(
    code: ErrorCode,
    detail: string | Violation[],
    options: { retryAfterSeconds?: number; members?: object } = {},
  ) {
    super(`${code}: ${typeof detail === 'string' ? detail : 'the request is not valid'}`)
    this.code = code
    this.detail = detail
    this.retryAfterSeconds = options.retryAfterSeconds
    this.members = options.members
  }
}
