/**
 * The routes of the feeds: open streams, a replay, and tokens for browsers.
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
import type { Side } from '#schemas/events/book-changed.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import { type ConcurrencyLimit, tooManyAtOnce } from './concurrency-limit.ts'
import {
  type FeedAccess,
  type FeedAccessNeeds,
  openFeedAccess,
  RETRY_UNAVAILABLE_SECONDS,
  unavailable,
} from './feed-access.ts'
import type { FeedMetrics } from './feed-metrics.ts'
import { type FeedCatalog, type FeedRequest, feedRequestOf } from './feed-query.ts'
import type { AdmittedRequest, Gateway } from './gateway.ts'
import { type ReplayNeeds, replayOf, replayRangeOf } from './replay.ts'
import { prepareStart, type Started, type StreamStartOptions } from './stream-start.ts'

/** What the handler needs. */
export interface FeedHandlerOptions {
  access: FeedAccessNeeds
  /** Requests by key and by address. */
  limits: Omit<GuardNeeds, 'authenticate'>
  gateway: Pick<Gateway, 'connect'>
  catalog: FeedCatalog
  /** Keys that `providers` takes. */
  providerKeys: readonly string[]
  /** What `ready` lists when no provider was named. */
  providersOf: Record<Side, readonly string[]>
  starts: StreamStartOptions
  replays: ReplayNeeds & { concurrency: ConcurrencyLimit }
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

/** The routes of the feeds. */
export function feedRoutes(access: FeedAccess, options: FeedHandlerOptions): Route[] {
  const { prices, bids, replay, token } = feedOperations(options.providerKeys)
  const tiers = TIERS.filter(tier => options.access.connectionsOf({ tier }) > 0)
  const admit = ({ credential }: { credential: Credential }): Promise<StreamLease> => access.lease(credential)
  const streamOf = openStreams(access, options)
  return [
    defineRoute({ ...prices, tiers, admit, handle: asked => streamOf('ask', asked, liveStart) }),
    defineRoute({ ...bids, tiers, admit, handle: asked => streamOf('bid', asked, liveStart) }),
    defineRoute({
      ...replay,
      tiers,
      admit: ({ credential }) => access.leaseReplay(credential),
      handle: asked => streamOf('ask', asked, async () => replayStart(asked, options)),
    }),
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
interface AskedStream {
  query: FeedQuery | ReplayQuery
  credential: Credential
  request: Request
  response: Response
  held: StreamLease
}

/** Makes what comes before the live stream, or instead of it. */
type StartOf = (
  request: Request,
  feed: FeedRequest,
  providers: readonly string[],
  options: FeedHandlerOptions,
) => Promise<Started | undefined>

function openStreams(access: FeedAccess, options: FeedHandlerOptions) {
  return async (side: Side, asked: AskedStream, start: StartOf): Promise<Sent> => {
    const { query, credential, request, response, held } = asked
    if (options.unavailable() !== undefined) throw unavailable()
    const feed = feedRequestOf(side, query, options.catalog)
    const providers = feed.providers ?? options.providersOf[side]
    const started = await start(request, feed, providers, options)
    const release = (): void => {
      held.release()
      started?.release()
    }
    const admitted: AdmittedRequest = {
      feed,
      providers,
      keyId: credential.keyId,
      recheck: access.recheckOf(request),
      lease: { release },
      requestId: localsOf(response).requestId,
      begin: started?.begin,
    }
    try {
      await awaitPipeline(request, response)
      // The client may be gone while its key was looked up; nothing else releases its lease then.
      if (response.destroyed) release()
      else options.gateway.connect(request, response, admitted)
    } catch (error) {
      started?.release()
      throw error
    }
    return SENT
  }
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

/** What comes before the live stream; a 503 when the current state or the log cannot be read. */
const liveStart: StartOf = async (request, feed, providers, { starts }) => {
  const id = request.headers['last-event-id']
  return await prepareStart(feed, providers, typeof id === 'string' ? id : undefined, starts).catch(error => {
    throw error instanceof HttpError ? error : unavailable(error)
  })
}

function replayStart(
  { query, held }: { query: ReplayQuery; held: StreamLease },
  { replays }: FeedHandlerOptions,
): Started {
  const range = replayRangeOf(query, Date.now())
  const release = replays.concurrency.tryAcquire()
  if (!release) throw tooManyAtOnce()
  const releaseAll = (): void => {
    held.release()
    release()
  }
  return { begin: replayOf(range, replays, releaseAll), release }
}
