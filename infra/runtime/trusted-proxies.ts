/**
 * Which peers are proxies of ours, and whom they speak for.
 *
 * Reads and writes nothing. Invariant: an address that a header names counts only if every hop to the right of it is a trusted proxy, so a
 * client behind one can add addresses but not change its own. Source: RFC 7239; X-Forwarded-For is read alike.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { BlockList, isIP } from 'node:net'

/** Whether an address is that of a trusted proxy. */
export type IsTrusted = (address: string) => boolean

/** Reads networks such as `10.0.0.0/8`, and single addresses; throws an Error that names the one at fault. */
export function openTrustedProxies(networks: readonly string[]): IsTrusted {
  const list = new BlockList()
  for (const network of networks) {
    const [address = '', bits, ...rest] = network.split('/')
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
    const prefix = bits === undefined ? LONGEST[family] : /^\d{1,3}$/.test(bits) ? Number(bits) : Number.NaN
    if (isIP(address) === 0 || rest.length > 0 || !(prefix <= LONGEST[family])) {
      throw new Error(`${network} is no network such as 10.0.0.0/8 or fd00::/8`)
    }
    list.addSubnet(address, prefix, family)
  }
  return address => {
    const plain = plainAddress(address)
    const version = isIP(plain)
    return version !== 0 && list.check(plain, version === 6 ? 'ipv6' : 'ipv4')
  }
}

const LONGEST = { ipv4: 32, ipv6: 128 } as const

/** An address without zone; a mapped one is the address that it maps. */
export const plainAddress = (address: string): string =>
  (address.split('%', 1)[0] as string).toLowerCase().replace(/^::ffff:(?=\d+\.)/, '')

/** The network that an address counts with: who has one IPv6 address has the 2^64 of its network. */
export function networkOf(address: string): string {
  const plain = plainAddress(address)
  if (!plain.includes(':')) return plain
  const [head = '', tail = ''] = plain.split('::')
  const groups = head.split(':').filter(Boolean)
  const after = tail.split(':').filter(Boolean)
  const zeros = plain.includes('::') ? Array.from({ length: 8 - groups.length - after.length }, () => '0') : []
  return [...groups, ...zeros, ...after].slice(0, 4).join(':')
}

/** Whether an address is of this machine. */
export function isLoopback(address: string): boolean {
  const plain = plainAddress(address)
  return plain === '::1' || (isIP(plain) === 4 && plain.startsWith('127.'))
}

/**
 * The address that a request comes from. A proxy may write one of both headers and pass the other on as it came: where they
 * disagree neither counts, and the request is the proxy's own.
 */
export function clientAddress(peer: string, headers: IncomingHttpHeaders, isTrusted: IsTrusted): string {
  if (!isTrusted(peer)) return peer
  const { forwarded, 'x-forwarded-for': listed } = headers
  const named = [
    ...(forwarded === undefined ? [] : [forwardedHops(forwarded)]),
    ...(listed === undefined ? [] : [[listed].flat().join(',').split(',').map(hostOf)]),
  ].map(hops => follow(peer, hops, isTrusted))
  const [first = peer, second = first] = named
  return first === second ? first : peer
}

/** Goes from the peer to the left for as long as the hops are trusted and readable. */
function follow(peer: string, hops: readonly (string | undefined)[], isTrusted: IsTrusted): string {
  let address = peer
  for (const hop of hops.toReversed()) {
    if (hop === undefined || !isTrusted(address)) return address
    address = hop
  }
  return address
}

const ELEMENTS = /^(?:[^"]|"(?:[^"\\]|\\.)*")*$/
const ELEMENT = /(?:[^,"]|"(?:[^"\\]|\\.)*")+/g
const FOR = /(?:^|;)\s*for\s*=\s*("(?:[^"\\]|\\.)*"|[^\s;"]+)/i

/** The hops of a `Forwarded` header; undefined is one that it does not name, or hides. */
function forwardedHops(header: string): (string | undefined)[] {
  if (!ELEMENTS.test(header)) return [undefined]
  return (header.match(ELEMENT) ?? []).map(element => {
    const [, node = ''] = FOR.exec(element) ?? []
    return hostOf(node.replace(/^"(.*)"$/, '$1').replaceAll(/\\(.)/g, '$1'))
  })
}

/** The address of a hop, which may have a port. */
function hostOf(text: string): string | undefined {
  const hop = text.trim()
  const [, host = hop] = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(hop) ?? /^([\d.]+):\d{1,5}$/.exec(hop) ?? []
  return isIP(host) === 0 ? undefined : plainAddress(host)
}
