/**
 * Writes answers, errors included: head, security headers, request id, access log and latency in one place.
 *
 * Writes to the socket, the log and the metrics. Every answer carries X-Request-Id; a log line holds neither key nor query. What is no
 * HttpError is a bug: it is logged with the request's id, and its cause is not revealed to the client.
 * Headers are sent as one flat list and there is no ETag: setting them one by one and hashing 14 kB took a third of the time of a
 * whole GET /prices (45 to 67 us in bare Express, 32 so).
 */
import type { ErrorRequestHandler, Response } from 'express'
import { FIXED_HEADERS } from '#infra/runtime/answer-headers.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import { ERROR_STATUS, type ErrorCode } from '#schemas/api/error.ts'
import { type Allowance, type ExceededLimit, rateLimitFields } from '#schemas/api/rate-limit.ts'
import type { Credential } from './credential.ts'
import { errorText } from './error-text.ts'
import { HttpError } from './http-error.ts'

/** What a handler returns that has answered itself, by one of the functions here. */
export interface Sent {
  readonly isSent: true
}

/** The one value of its type. */
export const SENT: Sent = { isSent: true }

/** What a request carries through its handlers. */
interface RequestLocals {
  requestId: string
  /** Monotonic, milliseconds. */
  startedAt: number
  credential?: Credential
  /** Of a valid key, once they are known. */
  limits?: ShownLimits
  /** What refuses the request. */
  exceeded?: ExceededLimit | undefined
  observe: Observe
}

/** What the headers say of limits; a route with a quota of its own adds that, and X-RateLimit-* are of it then. */
interface ShownLimits {
  tier: string
  quota: Pick<Allowance, 'quota' | 'remaining'>
  /** Unix time in seconds. */
  resetAt: number
  allowances: Readonly<Record<string, Allowance>>
}

/** Called with every answer. */
export type Observe = (response: Response, answer: { status: number; bytes: number }) => void

const REPORT_EVERY_MS = 1_000
const PRIVATE = 'private, no-store'
/** The type of most answers. */
export const JSON_TYPE = 'application/json; charset=utf-8'

/** Sends a JSON text, or its bytes; `headers` are names and values alternating. */
export function send(response: Response, status: number, body: string | Buffer, headers: readonly string[] = []): Sent {
  const bytes = typeof body === 'string' ? Buffer.byteLength(body) : body.length
  writeHead(response, status, bytes, headers)
  response.end(body)
  localsOf(response).observe(response, { status, bytes })
  return SENT
}

/** Sends a JSON text that holds ASCII alone, or its bytes: it is not encoded, and its length is that of the body. */
export function sendAscii(response: Response, status: number, text: string | Buffer): Sent {
  writeHead(response, status, text.length, [])
  if (typeof text === 'string') response.end(text, 'latin1')
  else response.end(text)
  localsOf(response).observe(response, { status, bytes: text.length })
  return SENT
}

/** Sends a JSON text in pieces, which may be those of other answers too: they are not copied. */
export function sendPieces(
  response: Response,
  status: number,
  pieces: readonly Buffer[],
  headers: readonly string[] = [],
): Sent {
  const bytes = pieces.reduce((sum, { length }) => sum + length, 0)
  writeHead(response, status, bytes, headers)
  for (const piece of pieces) response.write(piece)
  response.end()
  localsOf(response).observe(response, { status, bytes })
  return SENT
}

function writeHead(response: Response, status: number, bytes: number, headers: readonly string[]): void {
  const length = ['Content-Type', JSON_TYPE, 'Content-Length', String(bytes)]
  response.writeHead(status, [...length, 'Cache-Control', PRIVATE, ...sharedHeaders(response), ...headers])
}

/**
 * What heads of all answers hold; those to a valid key say what is left of its limits, and a refusal what it exceeds. A page has a
 * policy of its own in place of the fixed one: of two a browser enforces both.
 */
function sharedHeaders(response: Response, policy?: string): string[] {
  const { requestId, limits, exceeded } = localsOf(response)
  const shared = ['X-Request-Id', requestId, ...FIXED_HEADERS]
  if (policy !== undefined) shared[shared.indexOf('Content-Security-Policy') + 1] = policy
  if (!limits) return exceeded ? [...shared, ...rateLimitFields({}, exceeded)] : shared
  const { tier, quota, resetAt, allowances } = limits
  return [
    ...shared,
    ...['X-RateLimit-Limit', String(quota.quota), 'X-RateLimit-Remaining', String(quota.remaining)],
    ...['X-RateLimit-Reset', String(resetAt), 'X-RateLimit-Tier', tier],
    ...rateLimitFields(allowances, exceeded),
  ]
}

/**
 * Sends a document that anybody may read and keep for a while, but for the copy that shows the limits of a key. Where the client has it
 * already, the headers alone are sent, its policy too: a browser puts them in the place of those that it has kept.
 */
export function sendDocument(
  response: Response,
  type: string,
  body: string | Buffer,
  options: { headers?: readonly string[]; cache?: string; policy?: string; isUnchanged?: boolean } = {},
): Sent {
  const { headers = [], cache = 'max-age=300', policy, isUnchanged = false } = options
  const { limits, observe } = localsOf(response)
  const status = isUnchanged ? 304 : 200
  const bytes = isUnchanged ? 0 : Buffer.byteLength(body)
  response.writeHead(status, [
    ...(isUnchanged ? [] : ['Content-Type', type, 'Content-Length', String(bytes)]),
    ...['Cache-Control', `${limits ? 'private' : 'public'}, ${cache}`],
    ...sharedHeaders(response, policy),
    ...headers,
  ])
  response.end(isUnchanged ? undefined : body)
  observe(response, { status, bytes })
  return SENT
}

/**
 * Sends a body of a type that is made while it is sent: the first part before the head, so that a failure until then is still an error
 * answer, and no more than one part ahead of a slow reader.
 */
export async function sendParts(
  response: Response,
  type: string,
  parts: AsyncIterable<string | Buffer>,
  headers: readonly string[] = [],
): Promise<Sent> {
  let bytes = 0
  let isBegun = false
  for await (const part of parts) {
    if (!isBegun) beginAnswer(response, 200, ['Content-Type', type, ...headers])
    isBegun = true
    if (response.destroyed) break
    bytes += Buffer.byteLength(part)
    if (!response.write(part)) await drained(response)
  }
  if (!isBegun) beginAnswer(response, 200, ['Content-Type', type, ...headers])
  response.end()
  localsOf(response).observe(response, { status: 200, bytes })
  return SENT
}

/** Resolves when a slow reader has caught up, or is gone. */
function drained(response: Response): Promise<void> {
  return new Promise(resolve => {
    const goOn = () => {
      response.off('drain', goOn).off('close', goOn)
      resolve()
    }
    response.on('drain', goOn).on('close', goOn)
  })
}

/** Begins an answer whose body its caller writes, ends and reports to the observer; kept by nobody where nothing else is said. */
export function beginAnswer(response: Response, status: number, headers: readonly string[]): void {
  const cache = headers.includes('Cache-Control') ? [] : ['Cache-Control', PRIVATE]
  response.writeHead(status, [...cache, ...sharedHeaders(response), ...headers])
}

/** Sends a status without a body. */
export function sendEmpty(response: Response, status: number, headers: readonly string[]): Sent {
  beginAnswer(response, status, headers)
  response.end()
  localsOf(response).observe(response, { status, bytes: 0 })
  return SENT
}

/** What the request carries. */
export const localsOf = (response: Response): RequestLocals => response.locals as RequestLocals

/**
 * Opens the observer: one log line and one measurement per answer.
 *
 * What lines of a key, and measurements of a route, have in common is prepared once: an answer costs 3 us here
 * instead of 8, with a whole GET at about 70.
 */
export function openObserver(log: Log, metrics: Metrics, now: () => number = () => performance.now()): Observe {
  const latency = metrics.histogram('api_request_seconds', 'Time from request to answer', ['route', 'status'])
  const isLogged = log.isLevelEnabled('info')
  const timers = new Map<string, ReturnType<typeof latency.labels>>()
  const logs = new WeakMap<Credential, Log>()
  const timerOf = (route: string, status: number): ReturnType<typeof latency.labels> => {
    const name = `${status} ${route}`
    const known = timers.get(name) ?? latency.labels({ route, status })
    timers.set(name, known)
    return known
  }
  const logOf = (credential: Credential | undefined): Log => {
    if (!credential) return log
    const known = logs.get(credential) ?? log.child({ key_id: credential.keyId, tier: credential.tier })
    logs.set(credential, known)
    return known
  }
  return (response, { status, bytes }) => {
    const { startedAt, requestId, credential } = localsOf(response)
    const { method, route: matched } = response.req
    // The path of the route as in the code: labels stay few, and nothing from a client gets into them.
    const route: string = matched?.path ?? 'none'
    const ms = now() - startedAt
    timerOf(route, status).observe(ms / 1000)
    if (!isLogged) return
    const line = { request_id: requestId, method, route, status, ms: Math.round(ms * 100) / 100, bytes }
    logOf(credential).info(line, 'answered')
  }
}

/** Answers errors, by the status of their code; the last handler of an application. */
export function answerErrors(log: Log, now: () => number, note?: (code: ErrorCode) => void): ErrorRequestHandler {
  const report = openReporter(log, now)
  return (error, _request, response, _next) => {
    const failure = asHttpError(error)
    note?.(failure.code)
    const status = ERROR_STATUS[failure.code]
    if (status >= 500) report(failure, localsOf(response).requestId)
    if (response.headersSent) {
      // Half an answer must not look like a whole one.
      response.destroy()
      return
    }
    localsOf(response).exceeded = failure.exceeded
    send(response, status, errorText(failure), failure.headers)
  }
}

/** Logs bugs one by one, and a lost dependency once a second: it fails every request. */
function openReporter(log: Log, now: () => number): (failure: HttpError, requestId: string) => void {
  const lastAt = new Map<ErrorCode, number>()
  let unreported = 0
  return (failure, requestId) => {
    const { code } = failure
    const isBug = code === 'INTERNAL_ERROR'
    if (!isBug && now() - (lastAt.get(code) ?? Number.NEGATIVE_INFINITY) < REPORT_EVERY_MS) {
      unreported += 1
      return
    }
    lastAt.set(code, now())
    const line = { request_id: requestId, code, unreported, err: failure.cause ?? failure }
    if (isBug) log.error(line, 'a request met a bug')
    else log.warn(line, 'a request could not be answered')
    unreported = 0
  }
}

/** Express marks what it refuses itself (a path parameter that cannot be decoded) with a status. */
function asHttpError(error: unknown): HttpError {
  if (error instanceof HttpError) return error
  if ((error as { status?: number } | null)?.status === 400) {
    return new HttpError('BAD_REQUEST', 'The request line cannot be decoded.', { cause: error })
  }
  return new HttpError('INTERNAL_ERROR', 'Something went wrong on our side; the request id helps us find it.', {
    cause: error,
  })
}
