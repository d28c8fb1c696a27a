/**
 * Serves routes by Express: what every request passes, the routes, and what answers the rest.
 *
 * Every path answers under /v1 and at the root alike; a known path with another method is a 405 with Allow, an unknown path a 404.
 * Paths are tried in order, so the most frequent routes come first.
 */
import express, { type Express, type Request, type RequestHandler } from 'express'
import { requestIdOf } from '#infra/runtime/answer-headers.ts'
import { getQuery } from '#schemas/api/query-values.ts'
import { scopeNeeded } from '#schemas/api/scopes.ts'
import type { Credential } from './credential.ts'
import { type AuthorizedRequest, type Endpoint, perTier } from './define-route.ts'
import type { Guard } from './guard.ts'
import { HttpError } from './http-error.ts'
import { answerErrors, bytes, type ErrorOptions, json, localsOf, type Observe, SENT } from './reply.ts'
import { decodePercent, parse, readBody, validated } from './request.ts'

const PREFIX = '/v1/'
const PREFLIGHT_SECONDS = 86_400

interface AppOptions extends ErrorOptions {
  /** Called with every answer. */
  observe: Observe
  /** Whether HEAD is answered where GET is; true unless given. */
  takesHead?: boolean
}

export function makeApp(endpoints: readonly Endpoint[], guard: Guard, options: AppOptions): Express {
  const app = express()
  app.disable('x-powered-by')
  app.set('etag', false)
  // If answering an error fails, Express answers; as in production it then shows no stack.
  app.set('env', 'production')
  app.set('trust proxy', false)
  app.set('query parser', false)
  app.set('case sensitive routing', true)
  app.use(receive(options.observe))
  const { takesHead = true } = options
  const paths = Map.groupBy(endpoints, each => each.path)
  if (!takesHead) for (const [path, own] of paths) app.head(path, refuseOtherMethods(own, guard, takesHead))
  for (const endpoint of endpoints) app[endpoint.method](endpoint.path, handlerOf(endpoint, guard))
  for (const [path, own] of paths) app.route(path).all(refuseOtherMethods(own, guard, takesHead))
  app.use(async (request, response) => {
    await guard.passWithoutKey(request, response)
    throw new HttpError('NOT_FOUND', 'There is no such path.')
  })
  app.use(answerErrors(options))
  return app
}

/**
 * Gives a request its id and clock, and refuses a URL that cannot be decoded, whatever its route. Removes /v1: with the
 * routes mounted twice, a request without it was first matched against all of /v1.
 */
function receive(observe: Observe): RequestHandler {
  return (request, response, next) => {
    Object.assign(localsOf(response), { requestId: requestIdOf(request), startedAt: performance.now(), observe })
    const { url } = request
    if (url.includes('%')) decodePercent(url)
    if (url.startsWith(PREFIX)) request.url = url.slice(PREFIX.length - 1)
    next()
  }
}

function handlerOf(own: Endpoint, guard: Guard): RequestHandler {
  const endpoint = own.method === 'get' ? takingStrict(own) : own
  const { tiers, access = 'key', uncountedCode = 'SERVICE_UNAVAILABLE', status, budget } = endpoint
  const rule = tiers && { tiers, access, scope: scopeNeeded(endpoint), uncountedCode }
  return async (request, response) => {
    const credential = rule
      ? await guard.authorize(request, response, rule)
      : await guard.passWithoutKey(request, response, budget)
    const authorized = { credential, request, response }
    const lease = await endpoint.admit?.(authorized)
    try {
      const reply = await endpoint.handle({ ...authorized, ...(await partsOf(endpoint, authorized)), lease })
      if (reply === undefined) bytes(response, undefined, { status })
      else if (reply !== SENT) json(response, reply, { status })
    } catch (error) {
      ;(lease as { release(): void } | undefined)?.release()
      throw error
    }
  }
}

const takingStrict = (endpoint: Endpoint): Endpoint => ({
  ...endpoint,
  query: getQuery(endpoint.query),
  queries: endpoint.queries && perTier(endpoint.queries, getQuery),
})

/** Reads path, query and body by the schemas that document them; throws the 422 of the first that does not fit. */
async function partsOf(
  { params, areParamsChecked, query, queries, body, isBodyOptional }: Endpoint,
  { credential, request, response }: AuthorizedRequest<Credential | undefined>,
) {
  if (body) await readBody(request, response)
  const schema = queries && credential ? queries[credential.tier] : query
  return {
    params: params && areParamsChecked !== false ? validated(params, request.params, 'path') : undefined,
    query: schema && parse(schema, request),
    body: body && validated(body, isBodyOptional ? (request.body ?? {}) : request.body, 'body'),
  }
}

function refuseOtherMethods(own: readonly Endpoint[], guard: Guard, takesHead: boolean): RequestHandler {
  const methods = new Set(own.map(({ method }) => method.toUpperCase()))
  if (methods.has('GET') && takesHead) methods.add('HEAD')
  const allowed = [...methods].sort().join(', ')
  const budget = own.find(endpoint => endpoint.budget !== undefined)?.budget
  const allow = `${allowed}, OPTIONS`
  return async (request, response) => {
    // Uncounted: that would cost more than the answer, and a browser asks by itself.
    if (request.method === 'OPTIONS')
      return void bytes(response, undefined, { status: 204, headers: preflight(request, allow) })
    await guard.passWithoutKey(request, response, budget)
    const detail = `This path answers ${allowed}, not ${request.method}.`
    throw new HttpError('METHOD_NOT_ALLOWED', detail, { headers: ['Allow', allow] })
  }
}

/** A page of any origin may send the methods of the path, and whatever headers its browser asks for. */
function preflight({ headers }: Request, methods: string): string[] {
  const names = headers['access-control-request-headers']
  return [
    ...['Allow', methods, 'Access-Control-Allow-Methods', methods],
    ...['Access-Control-Max-Age', String(PREFLIGHT_SECONDS)],
    ...(names ? ['Access-Control-Allow-Headers', names] : []),
    ...['Vary', 'Access-Control-Request-Headers'],
  ]
}
