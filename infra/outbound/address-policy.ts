/**
 * Decides which addresses a URL that a client gave may lead to: public unicast ones, and those that the operator allows.
 *
 * Reads and writes nothing. Invariant: an address that is not positively public is refused. IPv6 addresses that carry an
 * IPv4 address are checked by that one (mapped, NAT64) or refused outright (6to4, Teredo, ISATAP, compatible), so no
 * spelling of an address is treated differently from the address that it leads to.
 */
import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

export type AddressPolicy = ReturnType<typeof openAddressPolicy>

/** Ports of HTTP and HTTPS: others are those of servers that speak something else. */
const WEB_PORTS: readonly number[] = [80, 443]

/** Public by their range, and yet the metadata and control services of a cloud. */
const METADATA = new Set(['168.63.129.16'])

const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3')

/**
 * Opens the policy: `ports` are those of public addresses that may be reached, `allowed` lists `address:port` pairs, IPv6 in
 * brackets, that may be reached whatever they are.
 */
export function openAddressPolicy(allowed: readonly string[], ports: readonly number[] = WEB_PORTS) {
  const pairs = new Set(allowed.map(pairOf))
  const pairPorts = new Set([...pairs].map(pair => Number(pair.slice(pair.lastIndexOf(' ') + 1))))
  const isNamed = (address: string, port: number) => pairs.has(`${spelling(address)} ${port}`)
  return {
    allows: (address: string, port: number): boolean =>
      (isPublic(address) && ports.includes(port)) || isNamed(address, port),
    /** A name may have a port, whatever it resolves to. */
    allowsPort: (port: number): boolean => ports.includes(port) || pairPorts.has(port),
  }
}

/** The address that a URL's host spells out; undefined for a name. Node's URL has read decimal, octal and hex forms. */
export function literalAddress(url: URL): string | undefined {
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  return isIP(host) === 0 ? undefined : host
}

const LOCAL_NAME = /(^|\.)(localhost|local|internal)$/

/** A name of this network by itself, whatever it resolves to (RFC 6761, RFC 6762, private-use `internal`). */
export function isLocalName(url: URL): boolean {
  if (literalAddress(url) !== undefined) return false
  const name = url.hostname.replace(/\.$/, '')
  return !name.includes('.') || LOCAL_NAME.test(name)
}

/** Everybody may reach the address; false for what is no address. */
export function isPublic(text: string): boolean {
  // A zone names a network of this machine.
  if (isIP(text) === 0 || text.includes('%')) return false
  const address = ipaddr.parse(text)
  return address.kind() === 'ipv4' ? isPublicV4(address as ipaddr.IPv4) : isPublicV6(address as ipaddr.IPv6)
}

function isPublicV4(address: ipaddr.IPv4): boolean {
  return address.range() === 'unicast' && !METADATA.has(address.toString())
}

function isPublicV6(address: ipaddr.IPv6): boolean {
  if (address.isIPv4MappedAddress()) return isPublicV4(address.toIPv4Address())
  const { parts } = address
  const isNat64 = parts[0] === 0x64 && parts[1] === 0xff9b && parts.slice(2, 6).every(part => part === 0)
  if (isNat64) return isPublicV4(embedded(parts))
  // ISATAP (RFC 5214): an IPv4 address behind 0000:5efe or 0200:5efe in any network.
  if (parts[5] === 0x5efe && ((parts[4] ?? 0) & 0xfdff) === 0) return false
  return address.match(GLOBAL_UNICAST) && address.range() === 'unicast'
}

function embedded(parts: readonly number[]): ipaddr.IPv4 {
  const [high = 0, low = 0] = parts.slice(6)
  return new ipaddr.IPv4([high >> 8, high & 0xff, low >> 8, low & 0xff])
}

/** One spelling per address; a mapped one is the address that it maps. */
const spelling = (address: string): string => (ipaddr.isValid(address) ? ipaddr.process(address).toString() : address)

function pairOf(entry: string): string {
  const [, host = '', port = ''] = /^\[?([0-9A-Fa-f.:]+?)\]?:(\d{1,5})$/.exec(entry) ?? []
  if (!ipaddr.isValid(host)) {
    throw new Error(`MARKETLOG_WEBHOOK_ALLOW lists address:port pairs such as 127.0.0.1:9000, not ${entry}`)
  }
  return `${spelling(host)} ${Number(port)}`
}
