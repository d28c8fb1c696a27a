/**
 * Stands before the schema registry as one in production does: TLS, and a credential asked of every request.
 *
 * Hands requests on as they came, without their credential. A request without one that is in force gets 401. Must not
 * answer anything itself.
 */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { request } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'

/** A registry behind TLS and credentials. */
export interface RegistryProxy {
  readonly url: string
  /** Credentials in force, as the header holds them: `Basic …` or `Bearer …`. */
  readonly accepted: Set<string>
  /** Requests handed on, by scheme. */
  readonly passed: ReadonlyMap<string, number>
  close(): Promise<void>
}

/** The header of a user and password. */
export const basicOf = (user: string, password: string): string =>
  `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`

/** Opens the proxy of a registry with a certificate of loopback. */
export async function openRegistryProxy(
  registry: string,
  pem: { key: string; certificate: string },
  accepted: readonly string[],
): Promise<RegistryProxy> {
  const target = new URL(registry)
  const inForce = new Set(accepted)
  const passed = new Map<string, number>()
  const options = { key: readFileSync(pem.key), cert: readFileSync(pem.certificate) }
  const server = createServer(options, (asked, answer) => {
    const { authorization = '', ...headers } = asked.headers
    if (!inForce.has(authorization)) {
      answer.writeHead(401, { 'content-type': 'application/json', 'www-authenticate': 'Basic' })
      return void answer.end('{"error_code":40101,"message":"Unauthorized"}')
    }
    const scheme = authorization.split(' ')[0] as string
    passed.set(scheme, (passed.get(scheme) ?? 0) + 1)
    const { hostname, port } = target
    const handed = request(
      { hostname, port, method: asked.method, path: asked.url, headers: { ...headers, host: target.host } },
      received => {
        answer.writeHead(received.statusCode ?? 502, received.headers)
        received.pipe(answer)
      },
    )
    handed.on('error', () => answer.destroy())
    asked.pipe(handed)
  })
  server.listen({ port: 0, host: '127.0.0.1' })
  await once(server, 'listening')
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}${target.pathname}`,
    ...{ accepted: inForce, passed },
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
