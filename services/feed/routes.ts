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
import type { Gateway } from './gateway.ts'
import { type ReplayParts, replayOf, replayRangeOf } from './replay.ts'
import { type AcquirePermit, prepareStart, type StartParts, type StreamStart } from './subscribe.ts'

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
  replays: ReplayParts
  acquireReplay: AcquirePermit
  /** Undefined when changes arrive, else why not. */
  unavailable(): string | undefined
  log: Log
}

/** How long a pipelined request may wait for the one before it. */
const PIPELINE_LIMIT_MS = 30_000

export function openFeedHandler(options: FeedHandlerOptions): Handler {
  const { limits, log } = options
  const access = openFeedAccess(options.access)
  const guard = openGuard({
    ...limits,
    authenticate: access.authenticate,
    retryAfterSeconds: RETRY_UNAVAILABLE_SECONDS,
  })
  return makeApp(feedRoutes(access, options), guard, {
    log,
    observe: () => undefined,
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
      handle: route => openStream(access, options, route, side, feed => startLive(route, feed, options.starts[side])),
    })
  const replay = (operation: typeof replayPrices | typeof replayBids | typeof replaySales, side: FeedSide) =>
    defineRoute({
      ...operation,
      tiers,
      admit: ({ request, credential }) => access.leaseReplay(request, credential),
      handle: route => openStream(access, options, route, side, async () => startReplay(route, options)),
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

interface StreamRequest<Q> {
  query: Q
  credential: Credential
  request: Request
  response: Response
  lease: StreamLease
}

async function openStream(
  access: FeedAccess,
  { gateway, catalog, providersOf, unavailable: whyNot }: FeedHandlerOptions,
  { query, credential, request, response, lease }: StreamRequest<FeedQuery | ReplayQuery>,
  side: FeedSide,
  startOf: (feed: FeedRequest) => Promise<StreamStart>,
): Promise<Sent> {
  if (whyNot() !== undefined) throw unavailable()
  const feed = feedRequestOf(side, query, catalog, providersOf[side])
  const start = await startOf(feed)
  const release = (): void => {
    lease.release()
    start.release()
  }
  try {
    await awaitPipeline(request, response)
    // The client may be gone while its key was looked up; nothing else releases its lease then.
    if (response.destroyed) release()
    else {
      const { requestId } = localsOf(response)
      const { begin } = start
      const authorized = { feed, keyId: credential.keyId, replaced: lease.replaced, requestId, begin, release }
      gateway.connect(request, response, { ...authorized, recheck: access.recheckOf(request) })
    }
  } catch (error) {
    start.release()
    throw error
  }
  return SENT
}

async function awaitPipeline(request: Request, response: Response): Promise<void> {
  if (response.socket !== null) return
  const signal = AbortSignal.timeout(PIPELINE_LIMIT_MS)
  const answered = Promise.race([once(response, 'socket', { signal }), once(request.socket, 'close', { signal })])
  await answered.catch(cause => {
    throw unavailable(cause)
  })
}

/** A 503 when the current state or the log cannot be read. */
async function startLive({ request, query }: StreamRequest<FeedQuery>, feed: FeedRequest, parts: StartParts) {
  // The header wins, since a browser that reconnects sends the same address; an empty id is none.
  const header = [request.headers['last-event-id']].flat()[0]
  const lastEventId = header || query.last_event_id || query.lastEventId || undefined
  return prepareStart(feed, lastEventId, parts).catch(error => {
    throw error instanceof HttpError ? error : unavailable(error)
  })
}

function startReplay(
  { query, lease }: StreamRequest<ReplayQuery>,
  { replays, acquireReplay }: FeedHandlerOptions,
): StreamStart {
  const range = replayRangeOf(query, Date.now())
  const release = acquireReplay()
  const releaseAll = (): void => {
    lease.release()
    release()
  }
  return { begin: replayOf(range, replays, releaseAll), release }
}
