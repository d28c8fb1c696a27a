/** The address of a request's client, for what counts by address. */
import type { IncomingMessage } from 'node:http'
import { peerOf } from '#infra/runtime/proxy-protocol.ts'
import { clientAddress, openTrustedProxies } from '#infra/runtime/trusted-proxies.ts'

/** Opens the reading for the networks of trusted proxies. */
export function openClientOf(
  trustedProxies: readonly string[],
): (request: Pick<IncomingMessage, 'socket' | 'headers'>) => string | undefined {
  const isTrusted = openTrustedProxies(trustedProxies)
  return ({ socket, headers }) => {
    const peer = peerOf(socket)
    return peer && clientAddress(peer, headers, isTrusted)
  }
}
