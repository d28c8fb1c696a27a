/**
 * Writes answers by three functions, json, bytes and stream: head, security headers, request id, access log and latency in one place.
 *
 * Writes to the socket, the log and the metrics. Every answer carries X-Request-Id; a log line holds neither key nor query. What is no
 * HttpError is a bug: it is logged with the request's id, and its cause is not revealed to the client.
 * Headers are sent as one flat list and there is no ETag: setting them one by one and hashing 14 kB took a third of the time of a
 * whole GET /prices (45 to 67 us in bare Express, 32 so).
 */
import type { ErrorRequestHandler, Response } from 'express'
import { PostgresUnavailable } from '#infra/postgres/pool.ts'
import { FIXED_HEADERS } from '#infra/runtime/answer-headers.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import { Refused } from '#infra/runtime/refused.ts'
import { ERROR_STATUS, type ErrorCode } from '#schemas/api/error.ts'
import { type Allowance, type ExceededLimit, rateLimitFields } from '#schemas/api/rate-limit.ts'
import type { Credential } from './credential.ts'
import { errorText, HttpError } from './http-error.ts'

/** Returned by a handler that has answered itself, by one of the functions here. */
export interface Sent {
  readonly isSent: true
}

export const SENT: Sent = { isSent: true }

interface RequestLocals {
  requestId: string
  /** Monotonic, milliseconds. */
  startedAt: number
  credential?: Credential
  /** Of a valid key, once they are known. */
  limits?: ShownLimits
  exceeded?: ExceededLimit | undefined
  observe: Observe
}

/** Of the headers; a route with a quota of its own adds that, and X-RateLimit-* are of it then. */
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
const JSON_TYPE = 'application/json; charset=utf-8'

interface AnswerOptions {
  status?: number
  /** JSON unless given. */
  type?: string
  /** Further ones, names and values alternating. */
  headers?: readonly string[]
  /** How long anybody may keep it, but for the copy that shows the limits of a key; nobody keeps it unless given. */
  cache?: string
  /** A page's own, in place of the fixed one: of two a browser enforces both. */
  policy?: string
}

export const json = (response: Response, value: unknown, options?: AnswerOptions): Sent =>
  bytes(response, JSON.stringify(value), options)

/** Sends a body, or its pieces, which may be those of other answers too: they are not copied. Undefined: the head alone. */
export function bytes(
  response: Response,
  body: string | Buffer | readonly Buffer[] | undefined,
  { status = 200, type = JSON_TYPE, headers = [], cache, policy }: AnswerOptions = {},
): Sent {
  const pieces = Array.isArray(body) ? (body as readonly Buffer[]) : [(body ?? '') as string | Buffer]
  const length = pieces.reduce((sum, piece) => sum + Buffer.byteLength(piece), 0)
  const { limits, observe } = localsOf(response)
  const content = ['Content-Type', type, 'Content-Length', String(length)]
  const ofNothing = status === 204 || status === 304 ? [] : ['Content-Length', '0']
  const caching = cache === undefined ? [] : ['Cache-Control', `${limits ? 'private' : 'public'}, ${cache}`]
  beginAnswer(response, status, [...(body === undefined ? ofNothing : content), ...caching, ...headers], policy)
  for (const piece of pieces.slice(0, -1)) response.write(piece)
  response.end(pieces.at(-1))
  observe(response, { status, bytes: length })
  return SENT
}

/**
 * Sends a body that is made while it is sent: the first part before the head, so that a failure until then is still an error
 * answer. The system has taken a part before the next is asked for, so that its memory may be used again.
 */
export async function stream(
  response: Response,
  parts: AsyncIterable<string | Buffer>,
  { type = JSON_TYPE, headers = [] }: Pick<AnswerOptions, 'type' | 'headers'> = {},
): Promise<Sent> {
  let length = 0
  const begin = (): void => {
    if (!response.headersSent) beginAnswer(response, 200, ['Content-Type', type, ...headers])
  }
  for await (const part of parts) {
    begin()
    if (response.destroyed) break
    length += Buffer.byteLength(part)
    await written(response, part)
  }
  begin()
  response.end()
  localsOf(response).observe(response, { status: 200, bytes: length })
  return SENT
}

/** Resolves when the system has taken a part, or the client is gone: then the callback of a write may never come. */
function written(response: Response, part: string | Buffer): Promise<void> {
  return new Promise(resolve => {
    const goOn = () => {
      response.off('close', goOn)
      resolve()
    }
    response.on('close', goOn)
    response.write(part, goOn)
  })
}

/**
 * Begins an answer whose body its caller writes, ends and reports to the observer; kept by nobody where nothing else is said. Answers
 * to a valid key say what is left of its limits, and a refusal what it exceeds.
 */
export function beginAnswer(response: Response, status: number, headers: readonly string[], policy?: string): void {
  const { requestId, limits, exceeded } = localsOf(response)
  const fixed = [...FIXED_HEADERS]
  if (policy !== undefined) fixed[fixed.indexOf('Content-Security-Policy') + 1] = policy
  response.writeHead(status, [
    ...(headers.includes('Cache-Control') ? [] : ['Cache-Control', PRIVATE]),
    ...['X-Request-Id', requestId, ...fixed],
    ...(limits
      ? [
          ...['X-RateLimit-Limit', String(limits.quota.quota), 'X-RateLimit-Remaining', String(limits.quota.remaining)],
          ...['X-RateLimit-Reset', String(limits.resetAt), 'X-RateLimit-Tier', limits.tier],
        ]
      : []),
    ...(limits || exceeded ? rateLimitFields(limits?.allowances ?? {}, exceeded) : []),
    ...headers,
  ])
}

/** Whether If-None-Match names an entity tag, weakly compared (RFC 9110, 13.1.2). */
export function isNamed(etag: string, ifNoneMatch = ''): boolean {
  const named = ifNoneMatch.match(/(?:W\/)?"[^"]*"/g) ?? []
  return ifNoneMatch.trim() === '*' || named.some(each => each.replace(/^W\//, '') === etag)
}

export const localsOf = (response: Response): RequestLocals => response.locals as RequestLocals

/** Opens the observer: one log line and one measurement per answer. */
export function openObserver(log: Log, metrics: Metrics): Observe {
  const latency = metrics.histogram('api_request_seconds', 'Time from request to answer', ['route', 'status'])
  return (response, { status, bytes }) => {
    const { startedAt, requestId: request_id, credential } = localsOf(response)
    const { method, route: matched } = response.req
    // The path of the route as in the code: labels stay few, and nothing from a client gets into them.
    const route: string = matched?.path ?? 'none'
    const ms = performance.now() - startedAt
    latency.observe({ route, status }, ms / 1000)
    const client = credential && { key_id: credential.keyId, tier: credential.tier }
    log.info({ ...client, request_id, method, route, status, ms: Math.round(ms * 100) / 100, bytes }, 'answered')
  }
}

export interface ErrorOptions {
  log: Log
  /** The refusal that an error means to an application; undefined for all that the kit knows. */
  refusalOf?(error: unknown): HttpError | undefined
}

/** Answers errors, by the status of their code; the last handler of an application. */
export function answerErrors({ log, refusalOf }: ErrorOptions): ErrorRequestHandler {
  const report = openReporter(log)
  return (error, _request, response, _next) => {
    const failure = refusalOf?.(error) ?? asHttpError(error)
    const status = ERROR_STATUS[failure.code]
    if (status >= 500) report(failure, localsOf(response).requestId)
    if (response.headersSent) {
      // Half an answer must not look like a whole one.
      response.destroy()
      return
    }
    localsOf(response).exceeded = failure.exceeded
    bytes(response, errorText(failure), { status, headers: failure.headers })
  }
}

/** Logs bugs one by one, and a lost dependency once a second: it fails every request. */
function openReporter(log: Log): (failure: HttpError, requestId: string) => void {
  const lastAt = new Map<ErrorCode, number>()
  let unreported = 0
  return (failure, requestId) => {
    const { code } = failure
    const isBug = code === 'INTERNAL_ERROR'
    const now = performance.now()
    if (!isBug && now - (lastAt.get(code) ?? Number.NEGATIVE_INFINITY) < REPORT_EVERY_MS) {
      unreported += 1
      return
    }
    lastAt.set(code, now)
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
  if (error instanceof PostgresUnavailable || error instanceof Refused) {
    const detail = 'What is stored of accounts is temporarily unavailable; try again.'
    return new HttpError('SERVICE_UNAVAILABLE', detail, { cause: error })
  }
  return new HttpError('INTERNAL_ERROR', 'Something went wrong on our side; the request id helps us find it.', {
    cause: error,
  })
}
