/**
 * Which peers are proxies of ours, and whom they speak for.
 *
 * Reads and writes nothing. Invariant: an address that X-Forwarded-For names counts only if every hop to the right of it is a trusted proxy,
 * so a client behind one can add addresses but not change its own.
 */
import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

/**
 * Reads networks such as `10.0.0.0/8`, and single addresses, into whether an address is that of a trusted proxy; throws an Error that names
 * the one at fault.
 */
export function openTrustedProxies(networks: readonly string[]): (address: string) => boolean {
  const list = new BlockList()
  for (const network of networks) {
    const [, address = '', bits] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(network) ?? []
    const family = familyOf(address)
    try {
      list.addSubnet(address, Number(bits ?? (family === 'ipv6' ? 128 : 32)), family)
    } catch {
      throw new Error(`${network} is no network such as 10.0.0.0/8 or fd00::/8`)
    }
  }
  return address => {
    const plain = plainAddress(address)
    return isIP(plain) !== 0 && list.check(plain, familyOf(plain))
  }
}

const familyOf = (address: string) => (isIP(address) === 6 ? 'ipv6' : 'ipv4')

/** An address without zone; a mapped one is the address that it maps. */
const plainAddress = (address: string): string =>
  (address.split('%', 1)[0] as string).toLowerCase().replace(/^::ffff:(?=\d+\.)/, '')

/** The network that an address counts with: who has one IPv6 address has the 2^64 of its network. */
export function networkOf(address: string): string {
  const plain = plainAddress(address)
  return isIP(plain) === 6 ? ipaddr.IPv6.networkAddressFromCIDR(`${plain}/64`).toString() : plain
}

export function isLoopback(address: string): boolean {
  const plain = plainAddress(address)
  return plain === '::1' || (isIP(plain) === 4 && plain.startsWith('127.'))
}

/**
 * Opens the reading of a request's address for the networks of trusted proxies: from the peer to the left of X-Forwarded-For, for as
 * long as the hops are trusted and readable.
 */
export function openClientOf(networks: readonly string[]) {
  const isTrusted = openTrustedProxies(networks)
  return ({
    socket,
    headers,
  }: Pick<IncomingMessage, 'headers'> & { socket: { remoteAddress?: string | undefined } }): string | undefined => {
    const hops = String(headers['x-forwarded-for'] ?? '').split(',')
    let address = socket.remoteAddress
    for (const hop of hops.map(hostOf).toReversed()) {
      if (address === undefined || hop === undefined || !isTrusted(address)) break
      address = hop
    }
    return address
  }
}

/** The address of a hop, which may have a port. */
function hostOf(text: string): string | undefined {
  const hop = text.trim()
  const [, host = hop] = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(hop) ?? /^([\d.]+):\d{1,5}$/.exec(hop) ?? []
  return isIP(host) === 0 ? undefined : plainAddress(host)
}
