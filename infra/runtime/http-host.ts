/**
 * The HTTP servers of a process: one for clients, on which roles mount their handlers, so that the API and the feeds share
 * one origin when they share a process and need no proxy for it; and one for its operator.
 *
 * Owns `/healthz` (the process lives) on both, and on the operator's alone `/readyz` (every role is ready, else 503 and why) and
 * `/metrics`: what a process waits for and how busy it is are no client's concern. Invariant: the longest mounted prefix wins; handlers
 * see targets in origin-form alone; a closed host first stops accepting, then waits for open requests up to its limit; clients hold no
 * more than connection-limits.ts allows. What is no HTTP request is refused here, by a code like any other fault, and its connection
 * ends: nothing after it can be distinguished from it.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { ERROR_STATUS, type ErrorCode } from '#schemas/api/error.ts'
import { FIXED_HEADERS, requestIdOf } from './answer-headers.ts'
import type { PlatformConfig } from './config.ts'
import { CONNECTION_LIMITS, type ConnectionLimits, limitConnections } from './connection-limits.ts'
import type { Metrics } from './metrics.ts'
import { isLoopback, openTrustedProxies } from './trusted-proxies.ts'

/** A request handler, an Express application included. */
export type Handler = (request: IncomingMessage, response: ServerResponse) => void

export type HttpHost = ReturnType<typeof openHttpHost>

export interface HostPorts {
  port: number
  operatorPort: number
}

export interface HttpLimits {
  /** A kept connection may be idle; longer than the usual load balancer keeps one. */
  idleMs: number
  /** From the first byte of a request to the end of its headers. */
  headersMs: number
  /** From the first byte of a request to its last. */
  requestMs: number
  checkEveryMs: number
}

const LIMITS: HttpLimits = { idleMs: 65_000, headersMs: 10_000, requestMs: 30_000, checkEveryMs: 2_000 }
const CLOSE_LIMIT_MS = 10_000
const SWEEP_EVERY_MS = 20

export function clientsOf({ clients }: Pick<PlatformConfig, 'clients'>): ConnectionLimits {
  const isTrusted = openTrustedProxies(clients.trustedProxies)
  return {
    ...CONNECTION_LIMITS,
    connections: clients.connections,
    perAddress: clients.connectionsPerAddress,
    isExempt: address => isLoopback(address) || isTrusted(address),
  }
}

interface HttpHostOptions {
  host: string
  port: number
  metrics: Metrics
  limits?: HttpLimits | undefined
  clients?: ConnectionLimits
  /** The clock of stalled answers, in milliseconds. */
  now?: () => number
  /** Where the operator's server listens; on loopback, at any free port, unless given. */
  operator?: { host: string; port: number }
}

const OPERATOR = { host: '127.0.0.1', port: 0 }
/** Scrapers and probes keep few. */
const OPERATOR_CONNECTIONS_MAX = 256

export function openHttpHost(options: HttpHostOptions) {
  const { limits = LIMITS, clients = CONNECTION_LIMITS, operator = OPERATOR, metrics } = options
  const { now = () => performance.now() } = options
  const mounted = [{ prefix: '/healthz', handler: answerHealth }]
  const roles = new Map<string, () => Promise<string | undefined>>()
  const server = openServer(limits)
  const serve = wellFormed((request, response) => {
    const mount = mounted.find(({ prefix }) => isBelow(pathOf(request), prefix))
    if (mount) mount.handler(request, response)
    else answerError(response, 'NOT_FOUND', 'No role of this process serves this path.')
  })
  const take = limitConnections(server, serve, { limits: clients, metrics, now })
  server.on('request', take).on('checkExpectation', take)
  const operatorServer = openOperatorServer(roles, metrics, limits)
  return {
    /** Hands requests whose path equals or lies below a prefix to a handler; `/` takes the rest. */
    mount(prefixes: string[], handler: Handler): void {
      for (const prefix of prefixes) mounted.push({ prefix, handler })
      mounted.sort((a, b) => b.prefix.length - a.prefix.length)
    },
    /** Adds a role to `/readyz`. */
    watch: (name: string, ready: () => Promise<string | undefined>): void => void roles.set(name, ready),
    // A caller that knows that the process listens may ask at once whether it is ready.
    listen: async (): Promise<HostPorts> => ({
      operatorPort: await listen(operatorServer, operator),
      port: await listen(server, options),
    }),
    close: async (): Promise<void> => void (await Promise.all([server, operatorServer].map(close))),
  }
}

function openServer({ idleMs, headersMs, requestMs, checkEveryMs }: HttpLimits): Server {
  const server = createServer({
    keepAliveTimeout: idleMs,
    headersTimeout: headersMs,
    requestTimeout: requestMs,
    connectionsCheckingInterval: checkEveryMs,
    // Node would answer a request without a host in a form of its own.
    requireHostHeader: false,
  })
  refuseWhatIsNoRequest(server)
  return server
}

function openOperatorServer(
  roles: ReadonlyMap<string, () => Promise<string | undefined>>,
  metrics: Metrics,
  limits: HttpLimits,
): Server {
  const answers: Record<string, Handler> = {
    '/healthz': answerHealth,
    '/readyz': (_request, response) => void answerReadiness(roles, response),
    '/metrics': (_request, response) => void answerMetrics(metrics, response),
  }
  const serve = wellFormed((request, response) => {
    const answer = answers[pathOf(request)]
    if (answer) answer(request, response)
    else answerError(response, 'NOT_FOUND', 'An operator finds /healthz, /readyz and /metrics here.')
  })
  const server = openServer(limits).on('request', serve)
  server.maxConnections = OPERATOR_CONNECTIONS_MAX
  return server
}

const listen = (server: Server, { host, port }: { host: string; port: number }): Promise<number> =>
  new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => resolve((server.address() as AddressInfo).port))
  })

const close = (server: Server): Promise<void> =>
  new Promise(resolve => {
    const limit = setTimeout(() => server.closeAllConnections(), CLOSE_LIMIT_MS)
    // A connection that is busy now becomes idle with its answer, and would be kept for the next request.
    const sweep = setInterval(() => server.closeIdleConnections(), SWEEP_EVERY_MS)
    server.close(() => {
      clearTimeout(limit)
      clearInterval(sweep)
      resolve()
    })
    server.closeIdleConnections()
  })

const answerHealth: Handler = (_request, response) => answerJson(response, 200, { status: 'ok' })

type Fault = [code: ErrorCode, detail: string]

/** Names and faults by the code of Node's parser; all others are malformed. */
const FAULTS: Record<string, Fault> = {
  HPE_INVALID_URL: [
    'BAD_REQUEST',
    'The request target is malformed; percent-encode blanks, controls and all that is not ASCII, as UTF-8.',
  ],
  HPE_HEADER_OVERFLOW: ['REQUEST_HEADERS_TOO_LARGE', 'The request line and headers may hold 16 kB at most.'],
  ERR_HTTP_REQUEST_TIMEOUT: ['REQUEST_TIMEOUT', 'The request did not arrive in time.'],
}

function refuseWhatIsNoRequest(server: Server): void {
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Duplex) => {
    // Node keeps the answer that is being written there; a second one would become part of it.
    const { _httpMessage: answer } = socket as Duplex & { _httpMessage?: ServerResponse | null }
    if (error.code === 'ECONNRESET' || !socket.writable || answer?.headersSent) return socket.destroy()
    const [code, detail] = FAULTS[error.code ?? ''] ?? ['BAD_REQUEST', 'This is no well-formed HTTP request.']
    end(socket, code, detail)
  })
  server.on('connect', (_request, socket: Socket) => end(socket, 'BAD_REQUEST', 'This server is no proxy.'))
}

function end(socket: Duplex, code: ErrorCode, detail: string): void {
  const status = ERROR_STATUS[code]
  const body = JSON.stringify({ code, detail })
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    `X-Request-Id: ${crypto.randomUUID()}`,
    'Connection: close',
  ]
  for (let i = 0; i < FIXED_HEADERS.length; i += 2) head.push(`${FIXED_HEADERS[i]}: ${FIXED_HEADERS[i + 1]}`)
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}

const SINGLE = new Set(['host', 'authorization', 'content-type', 'content-length', 'transfer-encoding'])

/** Node keeps the first of two such headers, a proxy in front may have gone by the second. */
function hasTwoOf(rawHeaders: readonly string[]): boolean {
  let seen = ''
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] as string).toLowerCase()
    if (!SINGLE.has(name)) continue
    if (seen.includes(`${name};`)) return true
    seen += `${name};`
  }
  return false
}

const CONTINUE = /(?:^|\W)100-continue(?:$|\W)/i

/** The fault for which a request is refused, whatever its path. */
function faultOf({ headers, rawHeaders, httpVersion }: IncomingMessage): Fault | undefined {
  if (headers.host === undefined && httpVersion === '1.1') return ['BAD_REQUEST', 'The request names no host.']
  if (hasTwoOf(rawHeaders)) return ['BAD_REQUEST', 'A header that may occur once came twice.']
  const { 'transfer-encoding': coding, expect } = headers
  // Node reads such a body by `chunked` at its end, a proxy in front may have read it in another way.
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') {
    return ['BAD_REQUEST', 'Of Transfer-Encoding only chunked is known.']
  }
  if (expect === undefined || CONTINUE.test(expect)) return undefined
  return ['EXPECTATION_FAILED', 'Of Expect only 100-continue is known; leave it out.']
}

const ABSOLUTE = /^https?:\/\/[^/?#]+/i
const METHODS = 'GET, HEAD, POST, PATCH, DELETE, OPTIONS'

/**
 * Brings the target of a request to origin-form, whatever host it names: Node gives it as it was sent (RFC 9112, 3.2). A fragment is
 * none of a target: what was meant as a part of the path or the query would be lost.
 */
function toOriginForm(request: IncomingMessage): Fault | undefined {
  const { url = '/', method } = request
  if (url.includes('#')) return ['BAD_REQUEST', 'A request target has no fragment; write # as %23.']
  if (url.startsWith('/') || (url === '*' && method === 'OPTIONS')) return undefined
  const path = url.replace(ABSOLUTE, '')
  if (path === url) return ['BAD_REQUEST', 'The request target is neither a path nor an address of http or https.']
  request.url = path.startsWith('/') ? path : `/${path}`
  return undefined
}

/** Serves what is a proper request; anything else is refused together with all that follows on its connection. */
function wellFormed(serve: Handler): Handler {
  return (request, response) => {
    const fault = faultOf(request) ?? toOriginForm(request)
    // The asterisk asks of the server as a whole.
    if (!fault) return request.url === '*' ? answer(response, 204, ['Allow', METHODS]) : serve(request, response)
    response.setHeader('Connection', 'close')
    answerError(response, ...fault)
  }
}

const pathOf = ({ url = '/' }: IncomingMessage): string => url.split('?', 1)[0] as string

function answerError(response: ServerResponse, code: ErrorCode, detail: string): void {
  answerJson(response, ERROR_STATUS[code], { code, detail })
}

const isBelow = (path: string, prefix: string): boolean =>
  prefix === '/' || path === prefix || path.startsWith(`${prefix}/`)

async function answerReadiness(
  roles: ReadonlyMap<string, () => Promise<string | undefined>>,
  response: ServerResponse,
): Promise<void> {
  const states = await Promise.all(
    [...roles].map(async ([name, ready]) => [name, (await ready().catch(error => String(error))) ?? 'ready'] as const),
  )
  const isReady = states.every(([, state]) => state === 'ready')
  answerJson(response, isReady ? 200 : 503, {
    status: isReady ? 'ready' : 'starting',
    roles: Object.fromEntries(states),
  })
}

async function answerMetrics(metrics: Metrics, response: ServerResponse): Promise<void> {
  const text = await metrics.registry.metrics()
  answer(response, 200, ['Content-Type', metrics.registry.contentType], text)
}

function answerJson(response: ServerResponse, status: number, body: object): void {
  const text = JSON.stringify(body)
  const headers = ['Content-Type', 'application/json; charset=utf-8', 'Content-Length', String(Buffer.byteLength(text))]
  answer(response, status, headers, text)
}

function answer(response: ServerResponse, status: number, headers: readonly string[], text?: string): void {
  response.writeHead(status, ['X-Request-Id', requestIdOf(response.req), ...FIXED_HEADERS, ...headers]).end(text)
}
