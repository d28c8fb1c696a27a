/**
 * The HTTP server of a process. Roles mount their handlers on it, so that the API and the feeds share
 * one origin when they share a process and need no proxy for it.
 *
 * Owns `/healthz` (the process lives), `/readyz` (every role is ready, else 503 and why) and
 * `/metrics`. Invariant: the longest mounted prefix wins; a closed host first stops accepting, then
 * waits for open requests up to its limit.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
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

const CLOSE_LIMIT_MS = 10_000

/** Opens a host for an address; it listens when told to. */
export function openHttpHost(options: { host: string; port: number; metrics: Metrics }): HttpHost {
  const mounted: { prefix: string; handler: Handler }[] = []
  const roles = new Map<string, () => Promise<string | undefined>>()
  const server = createServer((request, response) => {
    const path = (request.url ?? '/').split('?', 1)[0] ?? '/'
    const found = mounted.find(({ prefix }) => isBelow(path, prefix))
    if (found) found.handler(request, response)
    else answerJson(response, 404, { code: 'NOT_FOUND', detail: 'No role of this process serves this path.' })
  })
  server.keepAliveTimeout = 65_000
  server.headersTimeout = 10_000
  server.requestTimeout = 30_000

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
        server.close(() => {
          clearTimeout(limit)
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
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' }).end(JSON.stringify(body))
}
