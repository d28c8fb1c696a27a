/**
 * The only access to Redis: one server, a master that Sentinels name, or a Cluster, with bounded retries and bounded waits.
 *
 * Reads and writes nothing by itself. States: ready ⇄ connecting again → given up for a second → connecting again …,
 * closed. Invariant: a command that cannot be answered within the limits rejects; nothing waits for ever, and nothing
 * that may have had an effect is sent twice: again goes only what a server has refused unread (READONLY, MOVED, ASK, TRYAGAIN,
 * CLUSTERDOWN). A connection comes back by itself however long Redis was away. Callers keep the keys of one call in one hash
 * tag, those that a script derives too, so that the same code runs on a Cluster.
 */
import { type RedisOptions as ClientOptions, Cluster, Command, Redis as SingleRedis } from 'ioredis'
import { succeeds } from '../runtime/async/retry.ts'
import type { Log } from '../runtime/log.ts'
import { addressOf, type RedisAddress, type RedisNode, type RedisSettings } from '../runtime/redis-settings.ts'
import { accessOptions } from './access.ts'

export type Redis = SingleRedis | Cluster

/** No server answers, or those that do refuse this client or may not be used; the message says what to check. */
export class RedisRefusal extends Error {}

export interface ViewStore {
  redis: Redis
  /** Of all keys. */
  prefix: string
}

interface RedisOptions {
  /** Shown in CLIENT LIST. */
  name: string
  log: Log
}

const CONNECT_LIMIT_MS = 3_000
const COMMAND_LIMIT_MS = 10_000
const OPEN_LIMIT_MS = 10_000
const RECONNECT_TRIES = 20
const RECONNECT_LONGEST_MS = 500
const CONNECT_AGAIN_MS = 1_000
/** The code of the refusal; servers before version 7 quote it where a script met it. */
const READONLY = /^READONLY |: -READONLY /
/** Between attempts while a server that was the master answers as a replica. */
const READONLY_PAUSE_MS = 200
/** A server that keeps silent for so long is not the one that its Sentinels or its Cluster count on any more. */
const SILENT_LIMIT_MS = 5_000
/** Rounds of all Sentinels before the connection is given up for a second. */
const SENTINEL_TRIES = 3
/** A key that is moving is there after some milliseconds, a slot after some seconds. */
const MOVING_PAUSE_MS = 50
const REDIRECTIONS = 40

export async function openRedis(settings: RedisSettings, options: RedisOptions): Promise<Redis> {
  const { log, name } = options
  const address = addressOf(settings)
  const redis =
    address.kind === 'cluster' ? newCluster(settings, address, options) : newSingle(settings, address, options)
  // Without a listener the client prints to the console; callers see the loss in their own commands.
  redis.on('error', (error: Error) => log.warn({ connection: name, reason: error.message }, 'redis connection'))
  try {
    await connectWithin(redis)
    keepConnecting(redis)
    return redis
  } catch (error) {
    redis.disconnect()
    const { message, lastNodeError = { message } } = error as Error & { lastNodeError?: Error }
    const reason = `${lastNodeError.message}; check REDIS_URL, REDIS_PASSWORD and REDIS_TLS_*, and that the server runs`
    throw new RedisRefusal(`Redis does not answer for ${name}: ${reason}`, { cause: error })
  }
}

/** The host that the certificate of a connection's server was compared with: Sentinels may name a master by its host. */
const names = new WeakMap<Redis, string>()

function sharedOptions(name: string): ClientOptions {
  return {
    connectionName: name,
    lazyConnect: true,
    connectTimeout: CONNECT_LIMIT_MS,
    commandTimeout: COMMAND_LIMIT_MS,
    maxRetriesPerRequest: RECONNECT_TRIES,
    // A command that was under way when the connection broke may have been carried out: its caller decides.
    autoResendUnfulfilledCommands: false,
  }
}

const pauseBefore = (tries: number): number | null =>
  tries <= RECONNECT_TRIES ? Math.min(tries * 25, RECONNECT_LONGEST_MS) : null

/** Gives a connection that will be made the certificates and passwords of now; where they cannot be read, it keeps those it had. */
function renew(redis: SingleRedis, access: () => ClientOptions, log: Log): void {
  try {
    Object.assign(redis.options, access())
  } catch (error) {
    log.warn({ reason: (error as Error).message }, 'credentials of Redis could not be read')
  }
}

function newSingle(settings: RedisSettings, address: RedisAddress, { log, name }: RedisOptions): SingleRedis {
  const { kind, nodes, master, database } = address
  const refused = openReadonlyLimit()
  const access = (): ClientOptions => accessOptions(settings, address, host => names.set(redis, host))
  const redis: SingleRedis = new SingleRedis({
    ...sharedOptions(name),
    ...(kind === 'sentinel' ? { sentinels: nodes, name: master, socketTimeout: SILENT_LIMIT_MS } : nodes[0]),
    db: database,
    ...access(),
    retryStrategy(tries) {
      renew(redis, access, log)
      return refused.isRecent() ? READONLY_PAUSE_MS : pauseBefore(tries)
    },
    sentinelRetryStrategy: tries => (tries <= SENTINEL_TRIES ? RECONNECT_LONGEST_MS : null),
    sentinelCommandTimeout: CONNECT_LIMIT_MS,
    failoverDetector: kind === 'sentinel',
    reconnectOnError: refused.answerTo,
  })
  // Each command that a former master refuses ends the connection, and adds a listener for its end.
  redis.on('connect', () => redis.stream.setMaxListeners(0))
  // The client keeps what was under way when the connection broke, and without sending it again lets it wait for its limit. The
  // method that rejects it is private in its types.
  const { flushQueue } = redis as unknown as { flushQueue(error: Error, options: { offlineQueue: boolean }): void }
  redis.on('close', () => flushQueue.call(redis, new Error(LOST), { offlineQueue: false }))
  return redis
}

const LOST = 'the connection to Redis was lost before the answer'

/**
 * Decides what follows on an error: a server that was the master until a failover refuses writes before they have any effect, a
 * script at its first write. The connection is made again, which finds the new master, and the command goes there; after
 * the limit of a command it is rejected.
 */
function openReadonlyLimit(): { answerTo(error: Error): false | 1 | 2; isRecent(): boolean } {
  let since = 0
  let last = Number.NEGATIVE_INFINITY
  return {
    answerTo(error) {
      if (!READONLY.test(error.message)) return false
      const now = performance.now()
      if (now - last > COMMAND_LIMIT_MS) since = now
      last = now
      return now - since < COMMAND_LIMIT_MS ? 2 : 1
    },
    isRecent: () => performance.now() - last < RECONNECT_LONGEST_MS,
  }
}

function newCluster(settings: RedisSettings, address: RedisAddress, { log, name }: RedisOptions): Cluster {
  const access = (): ClientOptions => accessOptions(settings, address)
  const cluster = new Cluster(address.nodes, {
    redisOptions: {
      ...sharedOptions(name),
      socketTimeout: SILENT_LIMIT_MS,
      ...access(),
    },
    lazyConnect: true,
    // Names are kept, since certificates are made out to them.
    dnsLookup: (host, done) => done(null, host),
    clusterRetryStrategy: pauseBefore,
    maxRedirections: REDIRECTIONS,
    retryDelayOnTryAgain: MOVING_PAUSE_MS,
    retryDelayOnClusterDown: MOVING_PAUSE_MS,
    // A command that was under way when a connection broke is not sent again, as for a single server.
    retryDelayOnFailover: 0,
    slotsRefreshTimeout: CONNECT_LIMIT_MS,
  })
  cluster.on('+node', (node: SingleRedis) => renew(node, access, log))
  cluster.on('node error', () => {
    for (const node of cluster.nodes()) renew(node, access, log)
  })
  const send = cluster.sendCommand.bind(cluster)
  cluster.sendCommand = (command: Command, ...rest) => {
    // The client limits what it has sent to a node, and not what waits for one.
    command.setTimeout(COMMAND_LIMIT_MS)
    return send(command, ...rest)
  }
  return cluster
}

/** Connects once; rejects when there is no answer within the limit. */
async function connectWithin(redis: Redis): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  let reason: unknown
  const noteError = (error: unknown): void => {
    reason = error
  }
  const limit = setTimeout(() => reject(reason ?? new Error(`no answer within ${OPEN_LIMIT_MS} ms`)), OPEN_LIMIT_MS)
  redis.on('error', noteError).once('ready', resolve)
  // A Cluster whose slots are not all served yet is connected to again, and its first attempt then never ends.
  redis.connect().catch(error => reject(reason ?? error))
  try {
    await promise
  } finally {
    clearTimeout(limit)
    redis.off('error', noteError).off('ready', resolve)
  }
}

/** Throws while a connection is being made again, where a command would wait: nothing is admitted uncounted, and nothing waits. */
export function requireReady(redis: Redis): void {
  if (redis.status !== 'ready') throw new Error('Redis does not answer')
}

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

/** The servers that hold keys: each master of a Cluster, or the one there is. */
export const mastersOf = (redis: Redis): SingleRedis[] => (redis instanceof Cluster ? redis.nodes('master') : [redis])

/** Opens each server that holds keys or may come to hold them: masters and replicas; those that do not answer are left out. */
export async function openServers(settings: RedisSettings, { log, name }: RedisOptions) {
  const address = addressOf(settings)
  const redis = await openRedis(settings, { log, name })
  const nodes = redis instanceof Cluster ? nodesOf(redis) : await withReplicas(redis, address)
  const opened: { name: string; redis: SingleRedis }[] = []
  for (const node of nodes) {
    const server = newSingle(settings, { ...address, kind: 'single', nodes: [node] }, { log, name })
    server.on('error', (error: Error) => log.warn({ connection: name, ...node, reason: error.message }, 'a replica'))
    if (await succeeds(connectWithin(server))) opened.push({ name: `${node.host}:${node.port}`, redis: server })
    else server.disconnect()
  }
  return {
    opened,
    async close(): Promise<void> {
      for (const server of [redis, ...opened.map(each => each.redis)]) await closeRedis(server)
    },
  }
}

const nodesOf = (cluster: Cluster): RedisNode[] =>
  [...new Set(cluster.slots.flat())].flatMap(key => parseNodeKey(key) ?? [])

/** A server that answers, and its replicas by what it says of them. */
async function withReplicas(redis: SingleRedis, { kind, nodes }: RedisAddress): Promise<RedisNode[]> {
  const own = kind === 'single' ? (nodes[0] as RedisNode) : nodeOfKey(redis, '', new Map())
  // Beside one address there may be replicas that no client is to reach.
  if (kind === 'single') return [own]
  const text = await redis.info('replication').catch(() => '')
  const replicas = [...text.matchAll(/^slave\d+:ip=([^,]+),port=(\d+)/gm)]
  return [own, ...replicas.map(([, host = '', port]) => ({ host, port: Number(port) }))]
}

/** The server that holds a key by what the connection knows, but for slots that are known to have moved. */
export function nodeOfKey(redis: Redis, key: string, moved: ReadonlyMap<number, RedisNode>): RedisNode {
  if (redis instanceof Cluster) {
    const slot = slotOf(key)
    const node = moved.get(slot) ?? parseNodeKey(redis.slots[slot]?.[0])
    if (node === undefined) throw new Error(`no server of the Cluster holds slot ${slot}`)
    return node
  }
  const { remoteAddress, remotePort } = redis.stream
  const host = names.get(redis) ?? remoteAddress
  requireReady(redis)
  return { host: host as string, port: remotePort as number }
}

function parseNodeKey(key: string | undefined): RedisNode | undefined {
  const colon = key?.lastIndexOf(':') ?? -1
  return key === undefined ? undefined : { host: key.slice(0, colon), port: Number(key.slice(colon + 1)) }
}

/** Sends what `work` sends in as few writes as there are servers. */
export function corked<T>(redis: Redis, work: () => T): T {
  const streams = mastersOf(redis).map(({ stream }) => stream)
  for (const stream of streams) stream?.cork()
  try {
    return work()
  } finally {
    for (const stream of streams) stream?.uncork()
  }
}

export const slotOf = (key: string): number => new Command('get', [key]).getSlot() as number
