/**
 * GET /feed/prices and GET /feed/bids: from a request to an open stream, or to the error that says why not.
 *
 * Order of checks: route and method, credential (401), account (403), tier (403), requests and connections
 * (429), parameters (422), the log (503). Invariant: a lease that was taken is given back unless the stream opened.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Credential, KeyAnswer } from '#infra/postgres/key-directory.ts'
import type { Handler } from '#infra/runtime/http-host.ts'
import type { Log } from '#infra/runtime/log.ts'
import { ERROR_STATUS, type ErrorCode, type Violation } from '#schemas/api/error.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import type { ConnectionLeases, Lease } from './connection-leases.ts'
import type { FeedMetrics } from './feed-metrics.ts'
import { type FeedRequest, parseFeedQuery } from './feed-query.ts'
import type { Gateway } from './gateway.ts'
import type { FeedLimits } from './request-limits.ts'

/** What the handler needs. */
export interface FeedHandlerOptions {
  judge(authorization: string | undefined): KeyAnswer | Promise<KeyAnswer>
  /** Streams that a tier may hold at once; 0: none at all. */
  connectionsOf(credential: Credential): number
  leases: ConnectionLeases
  limits: FeedLimits
  /** Hears of every accepted key. */
  noteUse(keyId: string): void
  gateway: Pick<Gateway, 'connect'>
  /** Keys that `providers` takes. */
  providerKeys: readonly string[]
  /** What `ready` lists when no provider was named. */
  providersOf: Record<Side, readonly string[]>
  /** Undefined when changes arrive, else why not. */
  unavailable(): string | undefined
  metrics: FeedMetrics
  log: Log
}

const ROUTES = new Map<string, Side>([
  ['/feed/prices', 'ask'],
  ['/feed/bids', 'bid'],
])

/** A place is free again within a second or so of a disconnect. */
const RETRY_CONNECTIONS_SECONDS = 5
const RETRY_UNAVAILABLE_SECONDS = 2

/** A request that is answered with an error. */
class Refusal extends Error {
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

/** Opens the handler of everything below /feed and /v1/feed. */
export function openFeedHandler(options: FeedHandlerOptions): Handler {
  return (request, response) => {
    const requestId = crypto.randomUUID()
    admit(request, response, requestId, options).catch(error => {
      const refusal = error instanceof Refusal ? error : internal(error, requestId, options.log)
      options.metrics.refused.inc({ code: refusal.code })
      refuse(response, refusal, requestId)
    })
  }
}

async function admit(
  request: IncomingMessage,
  response: ServerResponse,
  requestId: string,
  options: FeedHandlerOptions,
): Promise<void> {
  const [path = '', query = ''] = split(request.url ?? '/')
  const side = ROUTES.get(path.replace(/^\/v1(?=\/)/, ''))
  if (side === undefined) throw new Refusal('NOT_FOUND', 'There is no such feed; see /feed/prices and /feed/bids.')
  if (request.method !== 'GET') throw new Refusal('METHOD_NOT_ALLOWED', 'A feed takes GET alone.', { allow: 'GET' })
  const { authorization } = request.headers
  const credential = await accepted(request, response, options)
  await count(credential, response, options)
  const lease = await leaseOf(credential, options)
  try {
    const feed = requested(side, query, options.providerKeys)
    const reason = options.unavailable()
    if (reason !== undefined) throw unavailable()
    // The client may be gone while its key was looked up; there is nobody to release the lease for it then.
    if (response.destroyed) return lease.release()
    const providers = feed.providers ?? options.providersOf[side]
    const { keyId } = credential
    options.gateway.connect(response, {
      ...{ feed, providers, keyId, lease, requestId },
      authorization: authorization ?? '',
    })
  } catch (error) {
    lease.release()
    throw error
  }
}

function split(url: string): [path: string, query: string] {
  const at = url.indexOf('?')
  return at < 0 ? [url, ''] : [url.slice(0, at), url.slice(at + 1)]
}

async function accepted(
  request: IncomingMessage,
  response: ServerResponse,
  options: FeedHandlerOptions,
): Promise<Credential> {
  let answer: KeyAnswer
  try {
    answer = await options.judge(request.headers.authorization)
  } catch (error) {
    options.log.warn({ err: error }, 'a key cannot be checked')
    throw unavailable()
  }
  if (!answer.accepted) {
    const waitSeconds = await options.limits.countAddress(request.socket.remoteAddress)
    throw waitSeconds === undefined ? new Refusal(answer.code, answer.detail) : tooMany(waitSeconds)
  }
  const { credential } = answer
  options.noteUse(credential.keyId)
  if (options.connectionsOf(credential) > 0) return credential
  tell(response, await options.limits.show(credential))
  throw new Refusal('FORBIDDEN_TIER', `The feeds are not part of the tier ${credential.tier}.`)
}

async function count(credential: Credential, response: ServerResponse, options: FeedHandlerOptions): Promise<void> {
  const counted = await options.limits.count(credential).catch(error => {
    options.log.warn({ err: error }, 'a connect cannot be counted')
    throw unavailable()
  })
  tell(response, counted.headers)
  if (counted.waitSeconds !== undefined) throw tooMany(counted.waitSeconds)
}

function tell(response: ServerResponse, headers: readonly string[]): void {
  for (let i = 0; i < headers.length; i += 2) response.setHeader(headers[i] as string, headers[i + 1] as string)
}

const tooMany = (waitSeconds: number): Refusal =>
  new Refusal('RATE_LIMIT_EXCEEDED', 'Too many requests; wait as Retry-After says.', {
    'retry-after': String(waitSeconds),
  })

async function leaseOf(credential: Credential, options: FeedHandlerOptions): Promise<Lease> {
  const max = options.connectionsOf(credential)
  const lease = await options.leases.acquire(credential.keyId, max)
  if (lease) return lease
  const detail = `This key holds its ${max} feed connections already; close one and try again.`
  throw new Refusal('RATE_LIMIT_FEED_CONNECTIONS_EXCEEDED', detail, {
    'retry-after': String(RETRY_CONNECTIONS_SECONDS),
  })
}

function requested(side: Side, query: string, providerKeys: readonly string[]): FeedRequest {
  const feed = parseFeedQuery(side, query, providerKeys)
  if (feed === undefined) throw new Refusal('BAD_REQUEST', 'The URL holds percent-encoding that cannot be decoded.')
  if (Array.isArray(feed)) throw new Refusal('VALIDATION_ERROR', feed)
  return feed
}

const unavailable = (): Refusal =>
  new Refusal('SERVICE_UNAVAILABLE', 'The feeds are not available at the moment; try again with a growing delay.', {
    'retry-after': String(RETRY_UNAVAILABLE_SECONDS),
  })

function internal(error: unknown, requestId: string, log: Log): Refusal {
  log.error({ err: error, request_id: requestId }, 'request failed')
  return new Refusal('INTERNAL_ERROR', 'Something went wrong on our side; the request id helps us find it.')
}

function refuse(response: ServerResponse, { code, detail, headers }: Refusal, requestId: string): void {
  if (response.headersSent) {
    response.destroy()
    return
  }
  response
    .writeHead(ERROR_STATUS[code], {
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'private, no-store',
      'access-control-allow-origin': '*',
      'access-control-expose-headers': 'X-Request-Id, Retry-After',
      'x-content-type-options': 'nosniff',
      'x-request-id': requestId,
      ...headers,
    })
    .end(JSON.stringify({ code, detail }))
}
