/**
 * Asks a Redis that is reached by TLS once whether certificates are accepted, ours and its own, before its client begins to try again.
 */
import { once } from 'node:events'
import { isIP } from 'node:net'
import { connect } from 'node:tls'
import { addressOf, type RedisNode, type RedisSettings } from '../runtime/redis-settings.ts'
import { refusedCertificate } from '../runtime/refused.ts'
import { readTlsFiles } from '../runtime/tls-files.ts'

const ASK_LIMIT_MS = 5_000

/** Resolves when a server of the address answers; throws what the last one has done else, a `Refused` where a certificate is not accepted. */
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
