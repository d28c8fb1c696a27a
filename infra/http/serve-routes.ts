/**
 * Serves routes by Express: what every request passes, the routes, and what answers the rest.
 *
 * Every path answers under /v1 and at the root alike; a known path with another method is a 405 with Allow, an unknown path a 404.
 * Paths are tried in order, so the most frequent routes come first.
 */
import express, { type Express, type Request, type RequestHandler, type Response, Router } from 'express'
import type { Credential } from '#infra/postgres/key-directory.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import type { Endpoint } from './define-route.ts'
import type { Guard, Rule } from './guard.ts'
import { HttpError } from './http-error.ts'
import { answerErrors, localsOf, type Observe, openObserver, SENT, send, sendEmpty } from './reply.ts'
import { decodePercent, parse, parseBody, parseParams, readBody, requestIdOf } from './request.ts'

const PREFIX = '/v1/'
const PREFLIGHT_SECONDS = 86_400

/** Makes an application of routes. */
export function makeApp(
  endpoints: readonly Endpoint[],
  guard: Guard,
  options: { log: Log; accessLog: Log; metrics: Metrics },
): Express {
  const app = express()
  app.disable('x-powered-by')
  app.set('etag', false)
  // If answering an error fails, Express answers; as in production it then shows no stack.
  app.set('env', 'production')
  app.set('trust proxy', false)
  app.set('query parser', false)
  const now = () => performance.now()
  app.use(receive(openObserver(options.accessLog, options.metrics, now), now))
  app.use(routerOf(endpoints, guard))
  app.use(async (request, response) => {
    await guard.passWithoutKey(request, response)
    throw new HttpError('NOT_FOUND', 'There is no such path.')
  })
  app.use(answerErrors(options.log, now))
  return app
}

/** The router of some routes, which refuses other methods of their paths. */
export function routerOf(endpoints: readonly Endpoint[], guard: Guard): Router {
  const router = Router({ caseSensitive: true })
  for (const endpoint of endpoints) router[endpoint.method](endpoint.path, handlerOf(endpoint, guard))
  for (const [path, own] of Map.groupBy(endpoints, each => each.path)) {
    router.all(path, refuseOtherMethods(own, guard))
  }
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

/** Checks a request, reads what it asks, and answers it, in this order. One function awaits: each more is a cost per request. */
function handlerOf(endpoint: Endpoint, guard: Guard): RequestHandler {
  const rule = ruleOf(endpoint)
  const { body, status, handle, admit } = endpoint
  return async (request, response) => {
    let credential: Credential | undefined
    if (!rule) await guard.passWithoutKey(request, response)
    else {
      const judged = guard.authenticate(request, rule)
      const answer = judged instanceof Promise ? await judged : judged
      if (!answer.accepted) throw await guard.refused(request, answer)
      credential = guard.accept(response, answer)
      const closed = guard.closed(credential, rule)
      if (closed) throw await guard.withLimits(response, credential, closed)
      const limits = guard.limitsOf(credential)
      guard.enforce(response, credential, limits, await guard.count(credential, limits, rule))
    }
    if (admit) await admit({ credential, request, response })
    if (body) await readBody(request, response)
    const result = handle(askedOf(endpoint, request, response, credential))
    const reply = result instanceof Promise ? await result : result
    if (reply === SENT) return
    if (reply === undefined) sendEmpty(response, status, [])
    else send(response, status, JSON.stringify(reply))
  }
}

function ruleOf({ tiers, access = 'key', uncountedCode = 'SERVICE_UNAVAILABLE' }: Endpoint): Rule | undefined {
  return (
    tiers && {
      tiers,
      takesSession: access === 'account' || access === 'management',
      takesChildKeys: access !== 'management',
      countsInMonth: access === 'key',
      uncountedCode,
    }
  )
}

/** Reads path, query and body by the schemas that document them; throws the 422 of the first that does not fit. */
function askedOf(
  { params, areParamsChecked, query, queries, body, isBodyOptional }: Endpoint,
  request: Request,
  response: Response,
  credential: Credential | undefined,
): Parameters<Endpoint['handle']>[0] {
  const schema = queries && credential ? queries[credential.tier] : query
  return {
    params: params && areParamsChecked !== false ? parseParams(params, request) : undefined,
    query: schema && parse(schema, request),
    body: body && parseBody(body, isBodyOptional ? (request.body ?? {}) : request.body),
    credential,
    request,
    response,
  }
}

/** A known path refuses every other method and says which it takes; a browser asks with OPTIONS whether it may. */
function refuseOtherMethods(own: readonly Endpoint[], guard: Guard): RequestHandler {
  const taken = new Set(own.map(({ method }) => method.toUpperCase()))
  if (taken.has('GET')) taken.add('HEAD')
  const allowed = [...taken].sort().join(', ')
  const allow = ['Allow', `${allowed}, OPTIONS`]
  return async (request, response) => {
    await guard.passWithoutKey(request, response)
    if (request.method !== 'OPTIONS') {
      const detail = `This path answers ${allowed}, not ${request.method}.`
      throw new HttpError('METHOD_NOT_ALLOWED', detail, { headers: allow })
    }
    sendEmpty(response, 204, [
      ...allow,
      ...['Access-Control-Allow-Methods', `${allowed}, OPTIONS`],
      ...['Access-Control-Allow-Headers', 'Authorization, Content-Type, Idempotency-Key, X-Request-Id'],
      ...['Access-Control-Max-Age', String(PREFLIGHT_SECONDS)],
    ])
  }
}
