/**
 * The only access to Redis: connections with bounded retries and bounded waits.
 *
 * Reads and writes nothing by itself. States: ready ⇄ connecting again → given up for a second → connecting again …,
 * closed. Invariant: a command that cannot be answered within the limits rejects; nothing waits for ever and nothing
 * is sent twice, and a connection comes back by itself however long Redis was away. Callers keep the keys of one atomic write in
 * one hash tag, so that the same code runs on a Cluster.
 */
import { Redis } from 'ioredis'
import type { Log } from '../runtime/log.ts'

export type { Redis }

/** Where the views of a namespace are. */
export interface ViewStore {
  redis: Redis
  /** What their keys begin with. */
  prefix: string
}

/** How a connection behaves. */
interface RedisOptions {
  /** Shown in CLIENT LIST. */
  name: string
  log: Log
}

const CONNECT_LIMIT_MS = 3_000
const COMMAND_LIMIT_MS = 10_000
const RECONNECT_TRIES = 20
const RECONNECT_LONGEST_MS = 500
const CONNECT_AGAIN_MS = 1_000

/** Opens a connection; resolves when Redis answers on it. */
export async function openRedis(url: string, options: RedisOptions): Promise<Redis> {
  const { log, name } = options
  const redis = new Redis(url, {
    connectionName: name,
    lazyConnect: true,
    connectTimeout: CONNECT_LIMIT_MS,
    commandTimeout: COMMAND_LIMIT_MS,
    maxRetriesPerRequest: RECONNECT_TRIES,
    // A command that was under way when the connection broke may have been carried out: its caller decides.
    autoResendUnfulfilledCommands: false,
    retryStrategy: tries => (tries <= RECONNECT_TRIES ? Math.min(tries * 25, RECONNECT_LONGEST_MS) : null),
  })
  // Without a listener the client prints to the console; callers see the loss in their own commands.
  redis.on('error', (error: Error) => log.warn({ connection: name, reason: error.message }, 'redis connection'))
  try {
    await redis.connect()
    keepConnecting(redis)
    return redis
  } catch (error) {
    redis.disconnect()
    throw new Error(`Redis does not answer for ${name}: check REDIS_URL and that the server runs`, { cause: error })
  }
}

/** What ends the connecting of each connection. */
const stops = new WeakMap<Redis, () => void>()

/** The client gives up after some tries; users of the connection may want to wait for longer. */
function keepConnecting(redis: Redis): void {
  let timer: NodeJS.Timeout | undefined
  const again = () => {
    timer = setTimeout(() => redis.connect().catch(() => undefined), CONNECT_AGAIN_MS)
  }
  redis.on('end', again)
  stops.set(redis, () => {
    redis.off('end', again)
    clearTimeout(timer)
  })
}

/** Ends a connection after what was sent on it; never rejects and never waits longer than a command may take. */
export async function closeRedis(redis: Redis): Promise<void> {
  stops.get(redis)?.()
  if (redis.status === 'end') return
  await redis.quit().catch(() => undefined)
  redis.disconnect()
}
