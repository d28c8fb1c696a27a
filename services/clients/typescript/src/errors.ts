import type { ErrorCode, ValidationErrorReply } from './generated.ts'

/** The faults of a request, one by one. */
export type Violations = ValidationErrorReply['detail']

/** The platform has refused or failed. */
export class MarketlogError extends Error {
  override readonly name = 'MarketlogError'
  readonly status: number
  /** Undefined where the answer is not the platform's own: a proxy's, say. */
  readonly code: ErrorCode | undefined
  /** A sentence; of a `VALIDATION_ERROR` what is wrong, one by one. */
  readonly detail: string | Violations
  /** Names the request in the platform's logs. */
  readonly requestId: string | undefined
  /** How long to wait before the request is sent again. */
  readonly retryAfterSeconds: number | undefined

  constructor(status: number, headers: Headers, body: string) {
    const { code, detail } = parsed(body)
    const sentence =
      typeof detail === 'string' ? detail : detail.map(({ loc, msg }) => `${loc.join('.')}: ${msg}`).join('; ')
    super([status, code, sentence].filter(Boolean).join(' '))
    this.status = status
    this.code = code
    this.detail = detail
    this.requestId = headers.get('x-request-id') ?? undefined
    this.retryAfterSeconds = secondsOf(headers.get('retry-after'))
  }
}

/** The platform was not reached, or what it sent broke off. */
export class MarketlogConnectionError extends Error {
  override readonly name = 'MarketlogConnectionError'
}

/** Events were missed that can be had no more; the state has to be read again. */
export class FeedGapError extends Error {
  override readonly name = 'FeedGapError'
  /** Older than what the platform keeps, or no position of its log. */
  readonly reason: 'expired' | 'unknown'

  constructor(reason: 'expired' | 'unknown') {
    super(`the events after the last one cannot be delivered any more: its position is ${reason}`)
    this.reason = reason
  }
}

function parsed(body: string): Pick<MarketlogError, 'code' | 'detail'> {
  try {
    const { code, detail } = JSON.parse(body)
    if (typeof code === 'string') return { code: code as ErrorCode, detail }
  } catch {
    // Not the platform's own.
  }
  return { code: undefined, detail: body.slice(0, 200) }
}

/** Of whole seconds, or of an HTTP date, which a proxy may send. */
function secondsOf(text: string | null): number | undefined {
  if (text === null) return undefined
  const seconds = /^\d+$/.test(text) ? Number(text) : Math.ceil((Date.parse(text) - Date.now()) / 1000)
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds)
}
