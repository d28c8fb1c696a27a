import { ERROR_STATUS, type ErrorCode, type Violation } from '#schemas/api/error.ts'
import type { ExceededLimit } from '#schemas/api/rate-limit.ts'

/** An answer that is not the one that was asked for. */
export class HttpError extends Error {
  readonly code: ErrorCode
  readonly detail: string | Violation[]
  /** Further headers, names and values alternating. */
  readonly headers: readonly string[]
  /** Of a 429: what RateLimit and Retry-After are about. */
  readonly exceeded: ExceededLimit | undefined
  /** Violations beside those of `detail`. */
  readonly omitted: number
  /** What the body holds beside code and detail. */
  readonly members: object

  constructor(
    code: ErrorCode,
    detail: string | Violation[],
    options: {
      headers?: string[]
      exceeded?: ExceededLimit
      omitted?: number
      members?: object
      cause?: unknown
    } = {},
  ) {
    super(`${code}: ${typeof detail === 'string' ? detail : 'the request is not valid'}`, { cause: options.cause })
    this.code = code
    this.detail = detail
    const { exceeded, headers = [] } = options
    this.headers = [
      ...(exceeded ? ['Retry-After', String(exceeded.resetSeconds)] : []),
      // Each 401 names a way to authenticate (RFC 9110, 15.5.2).
      ...(ERROR_STATUS[code] === 401 ? ['WWW-Authenticate', 'Bearer'] : []),
      ...headers,
    ]
    this.exceeded = exceeded
    this.omitted = options.omitted ?? 0
    this.members = options.members ?? {}
  }
}

/** Runs a read of a dependency; its failure becomes a 503 that names no cause to the client. */
export async function orUnavailable<T>(read: Promise<T>, code: ErrorCode, detail: string): Promise<T> {
  try {
    return await read
  } catch (error) {
    if (error instanceof HttpError) throw error
    throw new HttpError(code, detail, { cause: error })
  }
}
