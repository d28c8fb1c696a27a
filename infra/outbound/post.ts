/**
 * Posts to URLs that clients gave, and to no address that is not public.
 *
 * The only sender of requests whose target a client chose. Invariant: every address that the host resolves to is checked before
 * a connection is opened, the connection goes to exactly those addresses, and no second name is looked up: no
 * redirect is followed, no proxy used, no connection kept for another request. Time, headers and answer are bounded.
 * Errors are reported without addresses, since they are shown to the client that chose the host.
 */
import { Resolver } from 'node:dns/promises'
import { addAbortListener } from 'node:events'
import { type ClientRequest, Agent as HttpAgent, type IncomingMessage, request as requestHttp } from 'node:http'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import { isIPv6, type LookupFunction } from 'node:net'
import { type AddressPolicy, isLocalName, literalAddress, openAddressPolicy } from './address-policy.ts'

export type PostResult =
  /** `excerpt` is the beginning of the body as bytes came. */
  | { kind: 'answered'; status: number; retryAfter: string | undefined; location: string | undefined; excerpt: Buffer }
  /** The host is, or resolves to, an address that must not be reached. */
  | { kind: 'refused' }
  | { kind: 'timeout' }
  | { kind: 'unreachable'; reason: string }
  | { kind: 'interrupted' }

interface Post {
  url: string
  headers: Record<string, string>
  body: string
  limitMs: number
  signal: AbortSignal
}

export type Outbound = ReturnType<typeof openOutbound>

const EXCERPT_BYTES = 4_096
/** Of a body, once the status is known: the status decides, the body is only shown. */
const BODY_LIMIT_MS = 1_000
const HEADER_BYTES = 16_384

/**
 * Opens posts: `allow` lists what may be reached though it is not public, `ports` those of public hosts, `dns` the name servers to
 * ask, each for `dnsLimitMs`.
 */
export function openOutbound(options: {
  allow: readonly string[]
  ports?: readonly number[]
  dns: readonly string[]
  dnsLimitMs?: number
}) {
  const policy = openAddressPolicy(options.allow, options.ports)
  const resolve = openHostResolver(options.dns, options.dnsLimitMs)
  return {
    /** The URL spells out an address or port that must not be reached, or a local name; other names are checked when connecting. */
    refuses: (url: URL): boolean => {
      const literal = literalAddress(url)
      return literal === undefined
        ? isLocalName(url) || !policy.allowsPort(portOf(url))
        : !policy.allows(literal, portOf(url))
    },
    post: (request: Post): Promise<PostResult> => post(request, policy, resolve),
  }
}

async function post(request: Post, policy: AddressPolicy, resolve: Resolve): Promise<PostResult> {
  const late = AbortSignal.timeout(request.limitMs)
  const signal = AbortSignal.any([late, request.signal])
  try {
    const url = new URL(request.url)
    const literal = literalAddress(url)
    const addresses = literal === undefined ? await untilAborted(resolve(url.hostname), signal) : [literal]
    if (addresses.length === 0) return { kind: 'unreachable', reason: 'The host name does not resolve.' }
    if (!addresses.every(address => policy.allows(address, portOf(url)))) return { kind: 'refused' }
    return await exchange(url, request, addresses, signal)
  } catch (error) {
    if (request.signal.aborted) return { kind: 'interrupted' }
    if (late.aborted) return { kind: 'timeout' }
    return { kind: 'unreachable', reason: reasonOf(error as NodeJS.ErrnoException) }
  }
}

const portOf = (url: URL): number => Number(url.port || (url.protocol === 'https:' ? 443 : 80))

async function exchange(
  url: URL,
  { headers, body }: Post,
  addresses: readonly string[],
  signal: AbortSignal,
): Promise<PostResult> {
  const isSecure = url.protocol === 'https:'
  const begin = isSecure ? requestHttps : requestHttp
  const agent = isSecure ? new HttpsAgent({ keepAlive: false }) : new HttpAgent({ keepAlive: false })
  const request = begin(url, {
    method: 'POST',
    headers: { ...headers, 'Content-Length': Buffer.byteLength(body) },
    agent,
    lookup: answerWith(addresses),
    maxHeaderSize: HEADER_BYTES,
    signal,
  })
  try {
    const response = await answerTo(request, body)
    const excerpt = await beginningOf(response)
    const { 'retry-after': retryAfter, location } = response.headers
    return { kind: 'answered', status: response.statusCode ?? 0, retryAfter, location, excerpt }
  } finally {
    request.destroy()
    agent.destroy()
  }
}

/** The lookup of the connection: the addresses that were checked, and nothing else. */
function answerWith(addresses: readonly string[]): LookupFunction {
  const all = addresses.map(address => ({ address, family: isIPv6(address) ? 6 : 4 }))
  return (_host, options, callback) => {
    const [first] = all
    if (options.all) callback(null, all)
    else callback(null, first?.address ?? '', first?.family)
  }
}

function answerTo(request: ClientRequest, body: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.once('response', resolve)
    // Stays, since a connection may break after its answer, which is then no news.
    request.on('error', reject)
    request.once('upgrade', () => reject(Object.assign(new Error('upgraded'), { code: 'UPGRADED' })))
    request.end(body)
  })
}

/** Reads the first bytes of an answer; one that breaks, drips or never ends keeps what came. */
async function beginningOf(response: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = []
  let bytes = 0
  const limit = setTimeout(() => response.destroy(), BODY_LIMIT_MS)
  try {
    for await (const part of response) {
      parts.push(part as Buffer)
      bytes += (part as Buffer).length
      if (bytes >= EXCERPT_BYTES) break
    }
  } catch {
    // The status is known, and what is missing was only to be shown.
  } finally {
    clearTimeout(limit)
  }
  return Buffer.concat(parts).subarray(0, EXCERPT_BYTES)
}

async function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>()
  const listener = addAbortListener(signal, () => aborted.reject(signal.reason))
  return Promise.race([work, aborted.promise]).finally(() => listener[Symbol.dispose]())
}

const REASONS: Record<string, string> = {
  ECONNREFUSED: 'The connection was refused.',
  ECONNRESET: 'The connection was reset.',
  EPIPE: 'The connection was reset.',
  EHOSTUNREACH: 'The host cannot be reached.',
  ENETUNREACH: 'The host cannot be reached.',
  ETIMEDOUT: 'The host did not answer.',
  UPGRADED: 'The answer was no HTTP response.',
  HPE_HEADER_OVERFLOW: `The answer's headers exceed ${HEADER_BYTES} bytes.`,
}

/** Reports an error by its code alone: messages hold addresses. */
function reasonOf(error: NodeJS.ErrnoException): string {
  const { code = '' } = error
  const reason = REASONS[code]
  if (reason !== undefined) return reason
  if (code.startsWith('HPE_')) return 'The answer was no HTTP response.'
  if (/^(ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|UNABLE_TO|SELF_SIGNED|EPROTO)/.test(code)) return `TLS failed (${code}).`
  return 'The connection failed.'
}

/** Resolves a name to its addresses of both families; empty when it has none or no server answers. */
type Resolve = (host: string) => Promise<string[]>

const ASK_LIMIT_MS = 1_500
const TRIES = 2
const LOCALHOST = /(^|\.)localhost\.?$/

/**
 * Asks name servers directly and asynchronously: the system's lookup runs on four threads, so four names whose servers are
 * silent would hold up every other one, and it reads /etc/hosts, whose names mean this machine's networks. A lookup ends within
 * a few seconds; `localhost` and what ends in it is this machine whatever a server says (RFC 6761).
 *
 * Opens a resolver; `servers` are `address` or `address:port`, none means those of the system.
 */
function openHostResolver(servers: readonly string[], limitMs = ASK_LIMIT_MS): Resolve {
  const resolver = new Resolver({ timeout: limitMs, tries: TRIES, maxTimeout: limitMs * TRIES })
  if (servers.length > 0) resolver.setServers([...servers])
  return async host => {
    if (LOCALHOST.test(host)) return ['127.0.0.1', '::1']
    const none = (): string[] => []
    const [v4, v6] = await Promise.all([resolver.resolve4(host).catch(none), resolver.resolve6(host).catch(none)])
    return [...v4, ...v6]
  }
}
