/**
 * Serves routes by Express: what every request passes, the routes, and what answers the rest.
 *
 * Every path answers under /v1 and at the root alike; a known path with another method is a 405 with Allow, an unknown path a 404.
 * Paths are tried in order, so the most frequent routes come first.
 */
import express, { type Express, type Request, type RequestHandler, Router } from 'express'
import { requestIdOf } from '#infra/runtime/answer-headers.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { ErrorCode } from '#schemas/api/error.ts'
import { getQuery } from '#schemas/api/query-values.ts'
import { scopeNeeded } from '#schemas/api/scopes.ts'
import type { Credential } from './credential.ts'
import { type Admitted, type Endpoint, type Held, perTier } from './define-route.ts'
import type { Guard, RouteRule } from './guard.ts'
import { HttpError } from './http-error.ts'
import { answerErrors, localsOf, type Observe, SENT, send, sendEmpty } from './reply.ts'
import { decodePercent, parse, parseBody, parseParams, readBody } from './request.ts'

const PREFIX = '/v1/'
const PREFLIGHT_SECONDS = 86_400

/** What an application reports, and how strict it is. */
interface AppOptions {
  log: Log
  /** Called with every answer. */
  observe: Observe
  /** Called with the code of every error that is answered. */
  noteError?(code: ErrorCode): void
  /** Whether HEAD is answered where GET is; true unless given. */
  takesHead?: boolean
}

/** Makes an application of routes. */
export function makeApp(endpoints: readonly Endpoint[], guard: Guard, options: AppOptions): Express {
  const app = express()
  app.disable('x-powered-by')
  app.set('etag', false)
  // If answering an error fails, Express answers; as in production it then shows no stack.
  app.set('env', 'production')
  app.set('trust proxy', false)
  app.set('query parser', false)
  const now = () => performance.now()
  app.use(receive(options.observe, now))
  app.use(routerOf(endpoints, guard, options))
  app.use(async (request, response) => {
    await guard.passWithoutKey(request, response)
    throw new HttpError('NOT_FOUND', 'There is no such path.')
  })
  app.use(answerErrors(options.log, now, options.noteError))
  return app
}

/** The router of some routes, which refuses other methods of their paths. */
function routerOf(
  endpoints: readonly Endpoint[],
  guard: Guard,
  { takesHead = true }: Pick<AppOptions, 'takesHead'> = {},
): Router {
  const router = Router({ caseSensitive: true })
  const paths = Map.groupBy(endpoints, each => each.path)
  if (!takesHead) for (const [path, own] of paths) router.head(path, refuseOtherMethods(own, guard, takesHead))
  for (const endpoint of endpoints) router[endpoint.method](endpoint.path, handlerOf(endpoint, guard))
  for (const [path, own] of paths) router.all(path, refuseOtherMethods(own, guard, takesHead))
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
function handlerOf(own: Endpoint, guard: Guard): RequestHandler {
  const endpoint = own.method === 'get' ? takingStrict(own) : own
  const rule = ruleOf(endpoint)
  const { body, status, handle, admit, budget } = endpoint
  return async (request, response) => {
    let credential: Credential | undefined
    if (!rule) await guard.passWithoutKey(request, response, budget)
    else {
      const judged = guard.authenticate(request, rule)
      const answer = judged instanceof Promise ? await judged : judged
      if (!answer.accepted) throw await guard.refused(request, answer)
      credential = guard.accept(response, answer)
      const closed = guard.closed(credential, rule)
      if (closed) throw await guard.withLimits(response, credential, closed)
      const limits = guard.limitsOf(credential)
      guard.enforce(response, credential, await guard.count(credential, limits, rule))
    }
    const held = admit && (await admit({ credential, request, response }))
    try {
      if (body) await readBody(request, response)
      const result = handle(askedOf(endpoint, { credential, request, response, held }))
      const reply = result instanceof Promise ? await result : result
      if (reply === SENT) return
      if (reply === undefined) sendEmpty(response, status, [])
      else send(response, status, JSON.stringify(reply))
    } catch (error) {
      ;(held as Held | undefined)?.release()
      throw error
    }
  }
}

const takingStrict = (endpoint: Endpoint): Endpoint => ({
  ...endpoint,
  query: getQuery(endpoint.query),
  queries: endpoint.queries && perTier(endpoint.queries, getQuery),
})

function ruleOf(endpoint: Endpoint): RouteRule | undefined {
  const { tiers, access = 'key', uncountedCode = 'SERVICE_UNAVAILABLE' } = endpoint
  return tiers && { tiers, access, scope: scopeNeeded(endpoint), uncountedCode }
}

/** Reads path, query and body by the schemas that document them; throws the 422 of the first that does not fit. */
function askedOf(
  { params, areParamsChecked, query, queries, body, isBodyOptional }: Endpoint,
  { credential, request, response, held }: Admitted<Credential | undefined> & { held: unknown },
): Parameters<Endpoint['handle']>[0] {
  const schema = queries && credential ? queries[credential.tier] : query
  return {
    params: params && areParamsChecked !== false ? parseParams(params, request) : undefined,
    query: schema && parse(schema, request),
    body: body && parseBody(body, isBodyOptional ? (request.body ?? {}) : request.body),
    credential,
    request,
    response,
    held,
  }
}

/** A known path refuses every other method and says which it takes. */
function refuseOtherMethods(own: readonly Endpoint[], guard: Guard, takesHead: boolean): RequestHandler {
  const taken = new Set(own.map(({ method }) => method.toUpperCase()))
  if (taken.has('GET') && takesHead) taken.add('HEAD')
  const allowed = [...taken].sort().join(', ')
  const budget = own.find(endpoint => endpoint.budget !== undefined)?.budget
  const allow = `${allowed}, OPTIONS`
  return async (request, response) => {
    // Uncounted: that would cost more than the answer, and a browser asks by itself.
    if (request.method === 'OPTIONS') return void sendEmpty(response, 204, preflight(request, allow))
    await guard.passWithoutKey(request, response, budget)
    const detail = `This path answers ${allowed}, not ${request.method}.`
    throw new HttpError('METHOD_NOT_ALLOWED', detail, { headers: ['Allow', allow] })
  }
}

/** What a page of any origin may send: the methods of the path, and whatever headers its browser asks for. */
function preflight({ headers }: Request, methods: string): string[] {
  const asked = headers['access-control-request-headers']
  return [
    ...['Allow', methods, 'Access-Control-Allow-Methods', methods],
    ...['Access-Control-Max-Age', String(PREFLIGHT_SECONDS)],
    ...(asked ? ['Access-Control-Allow-Headers', asked] : []),
    ...['Vary', 'Access-Control-Request-Headers'],
  ]
}
