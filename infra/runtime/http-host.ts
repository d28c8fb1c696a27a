/**
 * The HTTP server of a process. Roles mount their handlers on it, so that the API and the feeds share
 * one origin when they share a process and need no proxy for it.
 *
 * Owns `/healthz` (the process lives), `/readyz` (every role is ready, else 503 and why) and
 * `/metrics`. Invariant: the longest mounted prefix wins; a closed host first stops accepting, then
 * waits for open requests up to its limit. What is no HTTP request is refused here, by a code like any other
 * fault, and its connection ends: nothing after it can be distinguished from it.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { ERROR_STATUS, type ErrorCode } from '#schemas/api/error.ts'
import type { Metrics } from './metrics.ts'

/** A request handler, an Express application included. */
export type Handler = (request: IncomingMessage, response: ServerResponse) => void

/** The HTTP server of a process. */
export interface HttpHost {
  /** Hands requests whose path equals or lies below a prefix to a handler; `/` takes the rest. */
  mount(prefixes: string[], handler: Handler): void
  /** Adds a role to `/readyz`. */
  watch(name: string, ready: () => Promise<string | undefined>): void
  /** Starts listening and returns the port. */
  listen(): Promise<number>
  close(): Promise<void>
}

/** How long a client may take. */
export interface HttpLimits {
  /** A kept connection may be idle; longer than the usual load balancer keeps one. */
  idleMs: number
  /** From the first byte of a request to the end of its headers. */
  headersMs: number
  /** From the first byte of a request to its last. */
  requestMs: number
  /** How often the two above are checked. */
  checkEveryMs: number
}

const LIMITS: HttpLimits = { idleMs: 65_000, headersMs: 10_000, requestMs: 30_000, checkEveryMs: 2_000 }
const CLOSE_LIMIT_MS = 10_000
const SWEEP_EVERY_MS = 20

/** Opens a host for an address; `listen` starts it. */
export function openHttpHost(options: { host: string; port: number; metrics: Metrics; limits?: HttpLimits }): HttpHost {
  const limits = options.limits ?? LIMITS
  const mounted: { prefix: string; handler: Handler }[] = []
  const roles = new Map<string, () => Promise<string | undefined>>()
  const server = createServer({ connectionsCheckingInterval: limits.checkEveryMs }, (request, response) => {
    if (hasTwoOf(request.rawHeaders)) {
      response.setHeader('Connection', 'close')
      return answerError(response, 'BAD_REQUEST', 'A header that may occur once came twice.')
    }
    const path = (request.url ?? '/').split('?', 1)[0] ?? '/'
    const found = mounted.find(({ prefix }) => isBelow(path, prefix))
    if (found) found.handler(request, response)
    else answerError(response, 'NOT_FOUND', 'No role of this process serves this path.')
  })
  server.keepAliveTimeout = limits.idleMs
  server.headersTimeout = limits.headersMs
  server.requestTimeout = limits.requestMs
  refuseWhatIsNoRequest(server)

  const host: HttpHost = {
    mount(prefixes, handler) {
      for (const prefix of prefixes) mounted.push({ prefix, handler })
      mounted.sort((a, b) => b.prefix.length - a.prefix.length)
    },
    watch: (name, ready) => void roles.set(name, ready),
    listen: () =>
      new Promise((resolve, reject) => {
        server.once('error', reject)
        server.listen(options.port, options.host, () => resolve((server.address() as AddressInfo).port))
      }),
    close: () =>
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
      }),
  }
  host.mount(['/healthz'], (_request, response) => answerJson(response, 200, { status: 'ok' }))
  host.mount(['/readyz'], (_request, response) => void answerReadiness(roles, response))
  host.mount(['/metrics'], (_request, response) => void answerMetrics(options.metrics, response))
  return host
}

/** Names and faults by the code of Node's parser; all others are malformed. */
const FAULTS: Record<string, [code: ErrorCode, detail: string]> = {
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
  response.writeHead(200, { 'content-type': metrics.registry.contentType }).end(text)
}

function answerJson(response: ServerResponse, status: number, body: object): void {
  const text = JSON.stringify(body)
  response
    .writeHead(status, {
      'content-type': 'application/json; charset=utf-8',
      'content-length': Buffer.byteLength(text),
      'x-content-type-options': 'nosniff',
    })
    .end(text)
}
