/**
 * The Express application: what every request passes, the routes, and what answers the rest.
 *
 * Opens nothing. Invariant: every path answers under /v1 and at the root alike; a known path with another
 * method is a 405 with Allow, an unknown path a 404, and every answer is sent through reply.ts. The most
 * frequent routes come first, since paths are tried in order.
 */
import express, { type Express, type RequestHandler, Router } from 'express'
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import { ApiError, answerErrors } from './errors.ts'
import { type Guard, openGuard } from './guard.ts'
import type { ApiParts } from './parts.ts'
import { localsOf, type Observe, openObserver, sendEmpty } from './reply.ts'
import { decodePercent, requestIdOf } from './request.ts'
import { addAccountKeyRoutes } from './routes/account-keys.ts'
import { addAlertRoutes } from './routes/alerts.ts'
import { addBatchRoutes } from './routes/batches.ts'
import { addCandlesRoute } from './routes/candles.ts'
import { addCatalogRoutes } from './routes/catalog.ts'
import { addDocumentRoutes } from './routes/documents.ts'
import { addHistoryRoute } from './routes/history.ts'
import { addInventoryRoutes } from './routes/inventory.ts'
import { addListingRoutes } from './routes/listings.ts'
import { addMarketRoutes } from './routes/market.ts'
import { addMarketHistoryRoutes } from './routes/market-history.ts'
import { addPortfolioDayRoutes } from './routes/portfolio-days.ts'
import { addPortfolioFileRoutes } from './routes/portfolio-files.ts'
import { addPortfolioValueRoutes } from './routes/portfolio-values.ts'
import { addPortfolioRoutes } from './routes/portfolios.ts'
import { addProviderRoutes } from './routes/providers.ts'
import { addRedirectRoute } from './routes/redirect.ts'
import { addSalesRoute } from './routes/sales.ts'
import { addSignInRoutes } from './routes/sign-in.ts'
import { addSnapshotRoutes } from './routes/snapshots.ts'
import { addUnsubscribeRoutes } from './routes/unsubscribe.ts'
import { addWebhookRoutes } from './routes/webhooks.ts'

const PREFIX = '/v1/'
const PREFLIGHT_SECONDS = 86_400

/** Makes the application of its parts. */
export function makeApp(parts: ApiParts, options: { log: Log; accessLog: Log; metrics: Metrics }): Express {
  const app = express()
  app.disable('x-powered-by')
  app.set('etag', false)
  // If answering an error fails, Express answers; as in production it then shows no stack.
  app.set('env', 'production')
  app.set('trust proxy', false)
  app.set('query parser', false)
  const now = () => performance.now()
  app.use(receive(openObserver(options.accessLog, options.metrics, now), now))
  const guard = openGuard(parts)
  app.use(routesOf(parts, guard), documentsOf(parts, guard))
  app.use(guard.withoutKey, () => {
    throw new ApiError('NOT_FOUND', 'There is no such path.')
  })
  app.use(answerErrors(options.log, now))
  return app
}

/** The market-data routes: what the API's description lists. */
export function routesOf(parts: ApiParts, guard: Guard): Router {
  const { allow, withoutKey } = guard
  const router = Router({ caseSensitive: true })
  addListingRoutes(router, allow, parts)
  addBatchRoutes(router, allow, parts)
  addSnapshotRoutes(router, allow, parts)
  addCandlesRoute(router, allow, parts)
  addHistoryRoute(router, allow, parts)
  addSalesRoute(router, allow, parts)
  addCatalogRoutes(router, allow, parts)
  addProviderRoutes(router, allow, parts)
  addMarketRoutes(router, allow, parts)
  addMarketHistoryRoutes(router, allow, parts)
  addAccountKeyRoutes(router, guard, parts)
  addWebhookRoutes(router, guard, parts)
  addAlertRoutes(router, guard, parts)
  addPortfolioValueRoutes(router, guard, parts)
  addPortfolioRoutes(router, guard, parts)
  addPortfolioDayRoutes(router, guard, parts)
  addPortfolioFileRoutes(router, guard, parts)
  addInventoryRoutes(router, guard, parts)
  addSignInRoutes(router, guard, parts)
  addRedirectRoute(router, withoutKey, parts)
  refuseOtherMethods(router, withoutKey)
  return router
}

/** The routes that describe the API. */
function documentsOf(parts: ApiParts, { withoutKey }: Guard): Router {
  const router = Router({ caseSensitive: true })
  addDocumentRoutes(router, withoutKey, parts)
  addUnsubscribeRoutes(router, withoutKey, parts)
  refuseOtherMethods(router, withoutKey)
  return router
}

/**
 * Gives a request its id and clock, and refuses a URL that cannot be decoded, whatever its route. Removes /v1: with the
 * routes mounted twice, a request without it was first matched against all of /v1.
 */
function receive(observe: Observe, now: () => number): RequestHandler {
  return (request, response, next) => {
    Object.assign(localsOf(response), { requestId: requestIdOf(request), startedAt: now(), observe })
    const { url } = request
    if (url.includes('%')) decodePercent(url)
    if (url.startsWith(PREFIX)) request.url = url.slice(PREFIX.length - 1)
    next()
  }
}

/** A known path refuses every other method and says which it takes; a browser asks with OPTIONS whether it may. */
function refuseOtherMethods(router: Router, withoutKey: RequestHandler): void {
  const methods = new Map<string, Set<string>>()
  for (const { route } of router.stack) {
    if (!route) continue
    const taken = methods.get(route.path) ?? new Set()
    for (const { method } of route.stack) taken.add(method.toUpperCase())
    methods.set(route.path, taken)
  }
  for (const [path, taken] of methods) {
    if (taken.has('GET')) taken.add('HEAD')
    const allowed = [...taken].sort().join(', ')
    router.all(path, withoutKey, (request, response) => {
      const allow = ['Allow', `${allowed}, OPTIONS`]
      if (request.method !== 'OPTIONS') {
        throw new ApiError('METHOD_NOT_ALLOWED', `This path answers ${allowed}, not ${request.method}.`, {
          headers: allow,
        })
      }
      sendEmpty(response, 204, [
        ...allow,
        ...['Access-Control-Allow-Methods', `${allowed}, OPTIONS`],
        ...['Access-Control-Allow-Headers', 'Authorization, Content-Type, Idempotency-Key, X-Request-Id'],
        ...['Access-Control-Max-Age', String(PREFLIGHT_SECONDS)],
      ])
    })
  }
}
