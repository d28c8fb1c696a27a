/**
 * A request that is answered with an error, and how that answer looks.
 *
 * Invariant: an answer whose headers are sent already is cut, never continued with an error.
 */
import type { ServerResponse } from 'node:http'
import { ERROR_STATUS, type ErrorCode, type Violation } from '#schemas/api/error.ts'

/** A request that is answered with an error. */
export class Refusal extends Error {
  readonly code: ErrorCode
  readonly detail: string | Violation[]
  readonly headers: Record<string, string>
  constructor(code: ErrorCode, detail: string | Violation[], headers: Record<string, string> = {}) {
    super(code)
    this.code = code
    this.detail = detail
    this.headers = headers
  }
}

const RETRY_UNAVAILABLE_SECONDS = 2

/** A server that the feed needs does not answer. */
export const unavailable = (): Refusal =>
  new Refusal('SERVICE_UNAVAILABLE', 'The feeds are not available at the moment; try again with a growing delay.', {
    'retry-after': String(RETRY_UNAVAILABLE_SECONDS),
  })

/** Clients that are refused together must not come back together. */
const SPREAD_SECONDS = 10

/** The limit on streams that read the past is reached; each client gets a time of its own to come back. */
export const tooManyAtOnce = (): Refusal =>
  new Refusal('SERVICE_UNAVAILABLE', 'Too many streams read the past at the moment; wait as Retry-After says.', {
    'retry-after': String(1 + Math.floor(Math.random() * SPREAD_SECONDS)),
  })

/** A limit on requests is reached. */
export const tooMany = (waitSeconds: number): Refusal =>
  new Refusal('RATE_LIMIT_EXCEEDED', 'Too many requests; wait as Retry-After says.', {
    'retry-after': String(waitSeconds),
  })

/** Headers of every answer that is no stream. */
export const jsonHeaders = (requestId: string): Record<string, string> => ({
  'content-type': 'application/json; charset=utf-8',
  'cache-control': 'private, no-store',
  'access-control-allow-origin': '*',
  'access-control-expose-headers': 'X-Request-Id, Retry-After',
  'x-content-type-options': 'nosniff',
  'x-request-id': requestId,
})

/** Answers with the error. */
export function refuse(response: ServerResponse, { code, detail, headers }: Refusal, requestId: string): void {
  if (response.headersSent) {
    response.destroy()
    return
  }
  const status = ERROR_STATUS[code]
  const challenge = status === 401 ? { 'www-authenticate': 'Bearer' } : {}
  response
    .writeHead(status, { ...jsonHeaders(requestId), ...challenge, ...headers })
    .end(JSON.stringify({ code, detail }))
}
