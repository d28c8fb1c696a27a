/**
 * Resolves the hosts of URLs that clients gave.
 *
 * Asks name servers directly and asynchronously: the system's lookup runs on four threads, so four names whose servers are
 * silent would hold up every other one, and it reads /etc/hosts, whose names mean this machine's networks. Invariant:
 * a lookup ends within a few seconds; `localhost` and what ends in it is this machine whatever a server says (RFC 6761).
 */
import { Resolver } from 'node:dns/promises'

/** Resolves a name to its addresses of both families; empty when it has none or no server answers. */
export interface HostResolver {
  resolve(host: string): Promise<string[]>
}

const ASK_LIMIT_MS = 1_500
const TRIES = 2
const LOCALHOST = /(^|\.)localhost\.?$/

/** Opens a resolver; `servers` are `address` or `address:port`, none means those of the system. */
export function openHostResolver(servers: readonly string[]): HostResolver {
  const resolver = new Resolver({ timeout: ASK_LIMIT_MS, tries: TRIES, maxTimeout: ASK_LIMIT_MS * TRIES })
  if (servers.length > 0) resolver.setServers([...servers])
  return {
    async resolve(host) {
      if (LOCALHOST.test(host)) return ['127.0.0.1', '::1']
      const none = (): string[] => []
      const [v4, v6] = await Promise.all([resolver.resolve4(host).catch(none), resolver.resolve6(host).catch(none)])
      return [...v4, ...v6]
    },
  }
}
