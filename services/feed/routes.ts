/**
 * The routes of the feeds: open streams, replays, and tokens for browsers.
 *
 * The kit checks credential (401), account and tier (403) and requests (429) as it does for the API; connections (429) follow, then
 * parameters (422), then the log (503). A lease that was taken is released unless the stream opens.
 */
import { once } from 'node:events'
import type { Request, Response } from 'express'
import { TIERS } from '#infra/config/tiers.ts'
import type { Credential } from '#infra/http/credential.ts'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { type GuardNeeds, openGuard } from '#infra/http/guard.ts'
import { HttpError } from '#infra/http/http-error.ts'
import { localsOf, SENT, type Sent } from '#infra/http/reply.ts'
import { makeApp } from '#infra/http/serve-routes.ts'
import type { StreamLease } from '#infra/redis/stream-leases.ts'
import type { Handler } from '#infra/runtime/http-host.ts'
import type { Log } from '#infra/runtime/log.ts'
import { feedOperations } from '#schemas/api/feed-operations.ts'
import type { FeedQuery, ReplayQuery } from '#schemas/api/feed-query.ts'
import type { FeedSide } from '#schemas/events/feed-advanced.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import {
  type FeedAccess,
  type FeedAccessParts,
  openFeedAccess,
  RETRY_UNAVAILABLE_SECONDS,
  unavailable,
} from './access.ts'
import { type FeedCatalog, type FeedRequest, feedRequestOf } from './feed-request.ts'
import type { AuthorizedStream, Gateway, StartStream } from './gateway.ts'
import type { FeedMetrics } from './metrics.ts'
import { type ReplayParts, replayOf, replayRangeOf } from './replay.ts'
import { begin, type ConcurrencyLimit, prepareStart, type StartParts } from './subscribe.ts'

export interface FeedHandlerOptions {
  access: FeedAccessParts
  /** Requests by key and by address. */
  limits: Omit<GuardNeeds, 'authenticate'>
  gateway: Pick<Gateway, 'connect'>
  catalog: FeedCatalog
  /** Keys that `providers` takes. */
  providerKeys: readonly string[]
  /** Listed by `ready` when no provider was named. */
  providersOf: Record<FeedSide, readonly string[]>
  starts: Record<FeedSide, StartParts>
  replays: ReplayParts & { concurrency: ConcurrencyLimit }
  /** Undefined when changes arrive, else why not. */
  unavailable(): string | undefined
  metrics: FeedMetrics
  log: Log
}

/** How long a pipelined request may wait for the one before it. */
const PIPELINE_LIMIT_MS = 30_000

/** Opens the handler of everything below /feed and /v1/feed. */
export function openFeedHandler(options: FeedHandlerOptions): Handler {
  const { limits, metrics, log } = options
  const access = openFeedAccess(options.access)
  const guard = openGuard({ ...limits, ...access, retryAfterSeconds: RETRY_UNAVAILABLE_SECONDS })
  return makeApp(feedRoutes(access, options), guard, {
    log,
    observe: () => undefined,
    noteError: code => metrics.refused.inc({ code }),
    takesHead: false,
  })
}

export function feedRoutes(access: FeedAccess, options: FeedHandlerOptions): Route[] {
  const { prices, bids, sales, replayPrices, replayBids, replaySales, token } = feedOperations(options.providerKeys)
  const tiers = TIERS.filter(tier => options.access.connectionsOf({ tier }) > 0)
  const live = (operation: typeof prices | typeof bids | typeof sales, side: FeedSide) =>
    defineRoute({
      ...operation,
      tiers,
      admit: ({ request, credential }) => access.lease(request, credential),
      handle: route => openStream(access, options, route, side, liveStart),
    })
  const replay = (operation: typeof replayPrices | typeof replayBids | typeof replaySales, side: FeedSide) =>
    defineRoute({
      ...operation,
      tiers,
      admit: ({ request, credential }) => access.leaseReplay(request, credential),
      handle: route => openStream(access, options, route, side, async () => replayStart(route, options)),
    })
  return [
    live(prices, 'ask'),
    live(bids, 'bid'),
    live(sales, 'sale'),
    replay(replayPrices, 'ask'),
    replay(replayBids, 'bid'),
    replay(replaySales, 'sale'),
    defineRoute({
      ...token,
      tiers,
      async handle({ request }) {
        const issued = await access.issueToken(request)
        return { token: issued.token, expires_at: formatInstant(issued.expiresAt) }
      },
    }),
  ]
}

/** A request for a stream whose connection is leased. */
interface StreamRequest {
  query: FeedQuery | ReplayQuery
  credential: Credential
  request: Request
  response: Response
  lease: StreamLease
}

/** Comes before the live stream or instead of it, with what it has acquired. */
interface Start {
  begin: StartStream
  release(): void
}

type StartOf = (
  route: StreamRequest,
  feed: FeedRequest,
  providers: readonly string[],
  options: FeedHandlerOptions,
) => Promise<Start>

async function openStream(
  access: FeedAccess,
  options: FeedHandlerOptions,
  route: StreamRequest,
  side: FeedSide,
  startOf: StartOf,
): Promise<Sent> {
  const { query, credential, request, response, lease } = route
  if (options.unavailable() !== undefined) throw unavailable()
  const feed = feedRequestOf(side, query, options.catalog)
  const providers = feed.providers ?? options.providersOf[side]
  const start = await startOf(route, feed, providers, options)
  const release = (): void => {
    lease.release()
    start.release()
  }
  const authorized: AuthorizedStream = {
    feed,
    providers,
    keyId: credential.keyId,
    recheck: access.recheckOf(request),
    release,
    replaced: lease.replaced,
    requestId: localsOf(response).requestId,
    begin: start.begin,
  }
  try {
    await awaitPipeline(request, response)
    // The client may be gone while its key was looked up; nothing else releases its lease then.
    if (response.destroyed) release()
    else options.gateway.connect(request, response, authorized)
  } catch (error) {
    start.release()
    throw error
  }
  return SENT
}

/** Waits until the requests before a pipelined one are answered. */
async function awaitPipeline(request: Request, response: Response): Promise<void> {
  if (response.socket !== null) return
  const signal = AbortSignal.timeout(PIPELINE_LIMIT_MS)
  const answered = Promise.race([once(response, 'socket', { signal }), once(request.socket, 'close', { signal })])
  await answered.catch(cause => {
    throw unavailable(cause)
  })
}

/** Comes before the live stream; a 503 when the current state or the log cannot be read. */
const liveStart: StartOf = async ({ request, query }, feed, providers, { starts }) => {
  const lastEventId = lastEventIdOf(request, query as FeedQuery)
  const parts = starts[feed.subscription.side]
  const start = await prepareStart(feed, providers, lastEventId, parts).catch(error => {
    throw error instanceof HttpError ? error : unavailable(error)
  })
  const { release } = start
  return { begin: subscriber => begin(subscriber, start, parts).finally(release), release }
}

/** The header wins, since a browser that reconnects sends the same address; an empty id is none. */
const lastEventIdOf = ({ headers }: Request, query: FeedQuery): string | undefined =>
  [headers['last-event-id']].flat()[0] || query.last_event_id || query.lastEventId || undefined

function replayStart({ query, lease }: StreamRequest, { replays }: FeedHandlerOptions): Start {
  const range = replayRangeOf(query as ReplayQuery, Date.now())
  const release = replays.concurrency.acquire()
  const releaseAll = (): void => {
    lease.release()
    release()
  }
  return { begin: replayOf(range, replays, releaseAll), release }
}
