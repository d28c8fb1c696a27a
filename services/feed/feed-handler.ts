/**
 * Answers requests below /feed: with an open stream, a feed token, or the error that says why not.
 *
 * Order of checks: route and method, credential (401), account (403), tier (403), requests and connections
 * (429), parameters (422), the log (503). A lease that was taken is released unless the stream opens.
 */
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Handler } from '#infra/runtime/http-host.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import type { ConcurrencyLimit } from './concurrency-limit.ts'
import { callerOf, type FeedAccess, issueToken, leaseOf } from './feed-access.ts'
import type { FeedMetrics } from './feed-metrics.ts'
import { type FeedRequest, parseFeedQuery, tokenOf } from './feed-query.ts'
import type { Gateway } from './gateway.ts'
import { jsonHeaders, Refusal, refuse, tooManyAtOnce, unavailable } from './refusal.ts'
import { parseReplayRange, type ReplayOptions, replayOf } from './replay.ts'
import { prepareStart, type Started, type StreamStartOptions } from './stream-start.ts'

/** What the handler needs. */
export interface FeedHandlerOptions {
  access: FeedAccess
  gateway: Pick<Gateway, 'connect'>
  /** Keys that `providers` takes. */
  providerKeys: readonly string[]
  /** What `ready` lists when no provider was named. */
  providersOf: Record<Side, readonly string[]>
  starts: StreamStartOptions
  replays: ReplayOptions & { concurrency: ConcurrencyLimit }
  /** Undefined when changes arrive, else why not. */
  unavailable(): string | undefined
  metrics: FeedMetrics
}

/** A request on its way to an answer. */
interface Asked {
  request: IncomingMessage
  response: ServerResponse
  /** What follows `?`. */
  query: string
  requestId: string
}

/** How long a pipelined request may wait for the one before it. */
const PIPELINE_LIMIT_MS = 30_000

interface Route {
  method: string
  answer(asked: Asked, options: FeedHandlerOptions): Promise<void>
}

const ROUTES = new Map<string, Route>([
  ['/feed/prices', { method: 'GET', answer: (asked, options) => openStream('ask', asked, options) }],
  ['/feed/bids', { method: 'GET', answer: (asked, options) => openStream('bid', asked, options) }],
  [
    '/feed/replay/prices',
    { method: 'GET', answer: (asked, options) => openStream('ask', asked, options, replayStart) },
  ],
  ['/feed/token', { method: 'POST', answer: answerToken }],
])

/** Method and path of all that the feed answers. */
export const feedRoutes = (): string[] => [...ROUTES].map(([path, { method }]) => `${method} ${path}`)

/** Opens the handler of everything below /feed and /v1/feed. */
export function openFeedHandler(options: FeedHandlerOptions): Handler {
  return (request, response) => {
    const requestId = crypto.randomUUID()
    answer(request, response, requestId, options).catch(error => {
      const refusal = error instanceof Refusal ? error : internal(error, requestId, options)
      options.metrics.refused.inc({ code: refusal.code })
      refuse(response, refusal, requestId)
    })
  }
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  requestId: string,
  options: FeedHandlerOptions,
): Promise<void> {
  const [path, query] = split(request.url ?? '/')
  const route = ROUTES.get(path.replace(/^\/v1(?=\/)/, ''))
  if (!route) throw new Refusal('NOT_FOUND', 'There is no such feed; see /feed/prices and /feed/bids.')
  const { method } = route
  if (request.method !== method)
    throw new Refusal('METHOD_NOT_ALLOWED', `This takes ${method} alone.`, { allow: method })
  await route.answer({ request, response, query, requestId }, options)
}

/** Makes what comes before the live stream, or instead of it. */
type StartOf = (
  asked: Asked,
  feed: FeedRequest,
  providers: readonly string[],
  options: FeedHandlerOptions,
) => Promise<Started | undefined>

async function openStream(side: Side, asked: Asked, options: FeedHandlerOptions, start: StartOf = liveStart) {
  const { request, response, query, requestId } = asked
  const caller = await callerOf(request, response, tokenOf(query), options.access)
  const lease = await leaseOf(caller, options.access)
  let started: Started | undefined
  const release = (): void => {
    lease.release()
    started?.release()
  }
  try {
    const feed = requested(side, query, options.providerKeys)
    if (options.unavailable() !== undefined) throw unavailable()
    const providers = feed.providers ?? options.providersOf[side]
    started = await start(asked, feed, providers, options)
    await awaitPipeline(asked)
    // The client may be gone while its key was looked up; nothing else releases its lease then.
    if (response.destroyed) return release()
    const { keyId } = caller.credential
    options.gateway.connect(request, response, {
      feed,
      providers,
      keyId,
      recheck: caller.recheck,
      lease: { release },
      requestId,
      begin: started?.begin,
    })
  } catch (error) {
    release()
    throw error
  }
}

/** Waits until the requests before a pipelined one are answered. */
async function awaitPipeline({ request, response }: Asked): Promise<void> {
  if (response.socket !== null) return
  const signal = AbortSignal.timeout(PIPELINE_LIMIT_MS)
  const answered = Promise.race([once(response, 'socket', { signal }), once(request.socket, 'close', { signal })])
  await answered.catch(() => {
    throw unavailable()
  })
}

/** What comes before the live stream; a 503 when the current state or the log cannot be read. */
const liveStart: StartOf = async ({ request, requestId }, feed, providers, { starts, access }) => {
  const id = request.headers['last-event-id']
  return await prepareStart(feed, providers, typeof id === 'string' ? id : undefined, starts).catch(error => {
    if (error instanceof Refusal) throw error
    access.log.warn({ err: error, request_id: requestId }, 'a stream cannot be begun')
    throw unavailable()
  })
}

const replayStart: StartOf = async ({ query }, _feed, _providers, { replays }) => {
  const range = parseReplayRange(new URLSearchParams(query), Date.now())
  if (Array.isArray(range)) throw new Refusal('VALIDATION_ERROR', range)
  const release = replays.concurrency.tryAcquire()
  if (!release) throw tooManyAtOnce()
  return { begin: replayOf(range, replays), release }
}

async function answerToken({ request, response, requestId }: Asked, { access }: FeedHandlerOptions): Promise<void> {
  await callerOf(request, response, undefined, access)
  const { token, expiresAt } = await issueToken(request, access)
  response.writeHead(200, jsonHeaders(requestId)).end(JSON.stringify({ token, expires_at: formatInstant(expiresAt) }))
}

function split(url: string): [path: string, query: string] {
  const at = url.indexOf('?')
  return at < 0 ? [url, ''] : [url.slice(0, at), url.slice(at + 1)]
}

function requested(side: Side, query: string, providerKeys: readonly string[]): FeedRequest {
  const feed = parseFeedQuery(side, query, providerKeys)
  if (feed === undefined) throw new Refusal('BAD_REQUEST', 'The URL holds percent-encoding that cannot be decoded.')
  if (Array.isArray(feed)) throw new Refusal('VALIDATION_ERROR', feed)
  return feed
}

function internal(error: unknown, requestId: string, { access }: FeedHandlerOptions): Refusal {
  access.log.error({ err: error, request_id: requestId }, 'request failed')
  return new Refusal('INTERNAL_ERROR', 'Something went wrong on our side; the request id helps us find it.')
}
