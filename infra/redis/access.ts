/**
 * TLS and credentials of a connection to Redis, as the client takes them.
 *
 * Certificates and passwords are read here, when a connection is opened: new files are in force from the next one on.
 */
import { once } from 'node:events'
import { isIP } from 'node:net'
import { type ConnectionOptions, checkServerIdentity, connect } from 'node:tls'
import type { RedisOptions } from 'ioredis'
import { addressOf, type RedisAddress, type RedisNode, type RedisSettings } from '../runtime/redis-settings.ts'
import { refusedCertificate } from '../runtime/refused.ts'
import { readTlsFiles } from '../runtime/tls-files.ts'

/**
 * The client's options; those of a server that is no Sentinel's hold for each server of a Cluster. `onName` receives the name
 * that a certificate is compared with.
 */
export function accessOptions(
  settings: RedisSettings,
  address: RedisAddress,
  onName: (host: string) => void = () => undefined,
): RedisOptions {
  const { user, password, sentinel } = settings.redis
  const tls = tlsOf(settings, address)
  const options: RedisOptions = {}
  const [name, secret] = [user ?? address.user, password?.() ?? address.password]
  if (name !== undefined) options.username = name
  if (secret !== undefined) options.password = secret
  const checkIdentity: typeof checkServerIdentity = (host, certificate) => {
    onName(host)
    return checkServerIdentity(host, certificate)
  }
  if (tls !== undefined) options.tls = { ...tls, ...serverName(address), checkServerIdentity: checkIdentity }
  if (address.kind !== 'sentinel') return options
  options.enableTLSForSentinelMode = tls !== undefined
  if (sentinel.user !== undefined) options.sentinelUsername = sentinel.user
  if (sentinel.password !== undefined) options.sentinelPassword = sentinel.password()
  if (sentinel.isTls ?? address.isTls) options.sentinelTLS = tlsFilesOf(settings)
  return options
}

/** TLS to a server; undefined without. */
export const tlsOf = (settings: RedisSettings, { isTls }: RedisAddress): ConnectionOptions | undefined =>
  isTls ? tlsFilesOf(settings) : undefined

const tlsFilesOf = ({ redis }: RedisSettings): ConnectionOptions => (redis.tls ? readTlsFiles(redis.tls) : {})

/** Which of several certificates a server shall answer with. */
function serverName({ kind, nodes }: RedisAddress): ConnectionOptions {
  const host = kind === 'single' ? (nodes[0]?.host ?? '') : ''
  return host === '' || isIP(host) ? {} : { servername: host }
}

const ASK_LIMIT_MS = 5_000

/**
 * Asks a Redis that is reached by TLS once whether certificates are accepted, ours and its own, before its client begins to try again.
 * Resolves when a server of the address answers; throws what the last one has done else, a `Refused` where a certificate is not accepted.
 */
export async function askRedis(settings: RedisSettings): Promise<void> {
  const { nodes } = addressOf(settings)
  let last: unknown
  for (const node of nodes) {
    try {
      return await ask(node, settings)
    } catch (error) {
      last = refusedCertificate(error, `Redis at ${node.host}:${node.port}`, 'REDIS_TLS') ?? error
    }
  }
  throw last
}

async function ask({ host, port }: RedisNode, { redis }: RedisSettings): Promise<void> {
  const files = redis.tls === undefined ? {} : readTlsFiles(redis.tls)
  const socket = connect({ host, port, ...(isIP(host) ? {} : { servername: host }), ...files })
  try {
    // A client's certificate is refused after the handshake: an answer of any kind shows that it was not.
    socket.write('PING\r\n')
    await once(socket, 'data', { signal: AbortSignal.timeout(ASK_LIMIT_MS) })
  } finally {
    socket.on('error', () => undefined).destroy()
  }
}
