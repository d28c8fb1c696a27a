/** Redis as production runs it, a test's own. Invariant: as for redis-processes.ts. */
import { closeRedis, openRedis, type Redis } from '#infra/redis/redis.ts'
import { openLog } from '#infra/runtime/log.ts'
import type { RedisAccess } from '#infra/runtime/redis-settings.ts'
import { eventually } from './eventually.ts'
import { openRedisProcesses, type RedisProcess, type RedisProcesses } from './redis-processes.ts'

export interface Reached {
  /** REDIS_URL and what goes with it. */
  readonly variables: Record<string, string>
  close(): Promise<void>
}

export type OwnRedis = Awaited<ReturnType<typeof openOwnRedis>>
export type OwnSentinels = Awaited<ReturnType<typeof openOwnSentinels>>
export type OwnRedisCluster = Awaited<ReturnType<typeof openOwnRedisCluster>>

export const PLAIN_ACCESS: RedisAccess = {
  ...{ tls: undefined, user: undefined, password: undefined },
  sentinel: { isTls: undefined, user: undefined, password: undefined },
}

const TLS_FILES = ({ certificates }: RedisProcesses): Record<string, string> => ({
  REDIS_TLS_CA: certificates.ca,
  REDIS_TLS_CERT: certificates.certificate,
  REDIS_TLS_KEY: certificates.key,
})
const PASSWORD = 'password of the servers'
const SENTINEL_PASSWORD = 'password of the Sentinels'
const MASTER_NAME = 'test-master'
const LINK_LIMIT_MS = 30_000
const SLOTS = 16_384
const MASTERS = 3
const KEYS_PER_MOVE = 50

/** A connection to one server of a test's own, in plain text. */
export async function withServer<T>(
  { port }: RedisProcess,
  work: (redis: Redis) => Promise<T>,
  login = '',
): Promise<T> {
  const settings = { servers: { redis: `redis://${login}127.0.0.1:${port}` }, redis: PLAIN_ACCESS }
  const redis = await openRedis(settings, { name: 'test', log: openLog({ level: 'error', name: 'test' }) })
  try {
    return await work(redis)
  } finally {
    await closeRedis(redis)
  }
}

/** Opens processes, which end when not all of them can be opened. */
async function withProcesses<T>(open: (processes: RedisProcesses) => Promise<T>): Promise<T> {
  const processes = await openRedisProcesses()
  return open(processes).catch(async error => {
    await processes.close()
    throw error
  })
}

/** Starts one server; clients come by TLS and prove themselves by a certificate and a password. */
export const openOwnRedis = () =>
  withProcesses(async processes => {
    const server = await processes.open('redis', ['--tls-auth-clients', 'yes', '--requirepass', PASSWORD])
    const url = `rediss://127.0.0.1:${server.tlsPort}`
    const variables: Reached['variables'] = { REDIS_URL: url, REDIS_PASSWORD: PASSWORD, ...TLS_FILES(processes) }
    return { server, variables, close: processes.close }
  })

/** Starts a master, a replica and three Sentinels that replace the one by the other; passwords everywhere, and TLS where asked for. */
export const openOwnSentinels = ({ tls = false } = {}) =>
  withProcesses(async processes => {
    const portOf = ({ port, tlsPort }: RedisProcess): number => (tls ? tlsPort : port)
    const replication = ['--tls-replication', tls ? 'yes' : 'no']
    const secured = ['--requirepass', PASSWORD, '--masterauth', PASSWORD, ...replication]
    const master = await processes.open('master', secured)
    const replica = await processes.open('replica', [...secured, '--replicaof', `127.0.0.1 ${portOf(master)}`])
    const servers = [master, replica]
    const isFollowed = async () => (await withServer(master, readLink, LOGIN)) === 'followed'
    await eventually(isFollowed, 'the replica to follow')
    const lines = [
      `tls-replication ${tls ? 'yes' : 'no'}`,
      `sentinel monitor ${MASTER_NAME} 127.0.0.1 ${portOf(master)} 2`,
      `sentinel auth-pass ${MASTER_NAME} "${PASSWORD}"`,
      `sentinel down-after-milliseconds ${MASTER_NAME} 1000`,
      `sentinel failover-timeout ${MASTER_NAME} 4000`,
      `requirepass "${SENTINEL_PASSWORD}"`,
      `sentinel sentinel-pass "${SENTINEL_PASSWORD}"`,
    ]
    const sentinels: RedisProcess[] = []
    for (const name of ['sentinel-1', 'sentinel-2', 'sentinel-3'])
      sentinels.push(await processes.openSentinel(name, lines))
    const hosts = sentinels.map(each => `127.0.0.1:${portOf(each)}`)
    const asked = sentinels[0] as RedisProcess
    const ask = (...words: string[]): Promise<unknown> =>
      withServer(asked, redis => redis.call('SENTINEL', words), `:${encodeURIComponent(SENTINEL_PASSWORD)}@`)
    const agree = async (): Promise<boolean> => String(await ask('CKQUORUM', MASTER_NAME)).includes('3 usable')
    await eventually(agree, 'the Sentinels to know each other')
    const variables: Reached['variables'] = {
      REDIS_URL: `${tls ? 'rediss' : 'redis'}-sentinel://${hosts.join(',')}?master=${MASTER_NAME}`,
      ...(tls && TLS_FILES(processes)),
      ...{ REDIS_PASSWORD: PASSWORD, REDIS_SENTINEL_PASSWORD: SENTINEL_PASSWORD },
    }
    return {
      /** The master at first comes first. */
      servers: servers as readonly RedisProcess[],
      ...{ variables, close: processes.close },
      /** The server that the Sentinels call the master now. */
      async master(): Promise<RedisProcess> {
        const [, port] = (await ask('GET-MASTER-ADDR-BY-NAME', MASTER_NAME)) as string[]
        return servers.find(each => portOf(each) === Number(port)) as RedisProcess
      },
      /** Resolves when both servers run and the one follows the other. */
      async whole(limitMs: number): Promise<void> {
        const links = async (): Promise<boolean> => {
          const roles = await Promise.all(servers.map(each => withServer(each, readLink, LOGIN).catch(() => 'none')))
          return roles.sort().join() === 'followed,following'
        }
        await eventually(links, 'the replica to follow', limitMs)
      },
    }
  })

const LOGIN = `:${encodeURIComponent(PASSWORD)}@`

async function readLink(redis: Redis): Promise<string> {
  const text = await redis.info('replication')
  if (text.includes('role:master')) return text.includes('state=online') ? 'followed' : 'alone'
  return text.includes('master_link_status:up') ? 'following' : 'cut off'
}

/** Starts a Cluster of three masters with a replica each; clients come by TLS where asked for. */
export const openOwnRedisCluster = ({ tls = false } = {}) =>
  withProcesses(async processes => {
    const servers: RedisProcess[] = []
    for (let id = 1; id <= 2 * MASTERS; id++) {
      const bus = await processes.freePort(`cluster-${id}-bus`)
      const settings = ['--cluster-enabled', 'yes', '--cluster-port', String(bus), '--cluster-node-timeout', '1500']
      const secured = tls ? ['--tls-cluster', 'yes', '--tls-replication', 'yes'] : []
      const validity = ['--cluster-replica-validity-factor', '0']
      servers.push(await processes.open(`cluster-${id}`, [...settings, ...secured, ...validity]))
      await meet(servers, { bus, tls })
    }
    await assign(servers)
    const scheme = tls ? 'rediss' : 'redis'
    const hosts = servers.map(each => `127.0.0.1:${tls ? each.tlsPort : each.port}`)
    const serving = async (slot: number, isWanted: boolean): Promise<RedisProcess> => {
      const found = (await mastersOf(servers)).find(each => holds(each, slot) === isWanted)?.server
      if (found === undefined) throw new Error(`no server says that it serves slot ${slot}`)
      return found
    }
    const whole = async (limitMs: number): Promise<void> => {
      await eventually(() => isWhole(servers), 'every slot to be served', limitMs)
    }
    await whole(LINK_LIMIT_MS)
    const variables: Reached['variables'] = {
      REDIS_URL: `${scheme}-cluster://${hosts.join(',')}`,
      ...(tls && TLS_FILES(processes)),
    }
    return {
      servers: servers as readonly RedisProcess[],
      ...{ variables, close: processes.close },
      /** Resolves when every slot is served and every server knows it. */
      whole,
      /** The server that serves a slot now. */
      masterOf: (slot: number) => serving(slot, true),
      /** Another master than the one that serves a slot. */
      otherMaster: (slot: number) => serving(slot, false),
      /** Moves slots with their keys, one after the other, while clients go on; a slot stays half moved while `between` works. */
      async move(
        slots: Iterable<number>,
        to: RedisProcess,
        between = async (): Promise<void> => undefined,
      ): Promise<void> {
        for (const slot of slots) {
          const from = await serving(slot, true)
          if (from !== to) await moveSlot(servers, { slot, from, to, between })
        }
      },
    }
  })

const links = new WeakMap<RedisProcess, { bus: number; tls: boolean }>()

/** The port by which servers reach each other's clients' side. */
const linkPort = (server: RedisProcess): string => String(links.get(server)?.tls ? server.tlsPort : server.port)

async function meet(servers: readonly RedisProcess[], link: { bus: number; tls: boolean }): Promise<void> {
  const [first, newest] = [servers[0] as RedisProcess, servers.at(-1) as RedisProcess]
  links.set(newest, link)
  if (first === newest) return
  const bus = String(links.get(first)?.bus)
  await withServer(newest, redis => redis.call('CLUSTER', ['MEET', '127.0.0.1', linkPort(first), bus]))
}

const idOf = (server: RedisProcess): Promise<string> =>
  withServer(server, async redis => String(await redis.call('CLUSTER', ['MYID'])))

/** The slots to the first three, and a replica to each of them. */
async function assign(servers: readonly RedisProcess[]): Promise<void> {
  for (const [index, server] of servers.entries()) {
    if (index < MASTERS) {
      const [from, to] = [index, index + 1].map(each => Math.floor((each * SLOTS) / MASTERS)) as [number, number]
      await withServer(server, redis => redis.call('CLUSTER', ['ADDSLOTSRANGE', String(from), String(to - 1)]))
      continue
    }
    const master = await idOf(servers[index - MASTERS] as RedisProcess)
    // It must have heard of its master first.
    const replicate = (): Promise<boolean> =>
      withServer(server, redis => redis.call('CLUSTER', ['REPLICATE', master]).then(() => true))
    await eventually(replicate, `${server.name} to know its master`)
  }
}

interface Serving {
  server: RedisProcess
  ranges: [from: number, to: number][]
}

const holds = ({ ranges }: Serving, slot: number): boolean => ranges.some(([from, to]) => slot >= from && slot <= to)

/** The masters, by what each says of itself; those that do not answer are left out. */
async function mastersOf(servers: readonly RedisProcess[]): Promise<Serving[]> {
  const found: Serving[] = []
  for (const server of servers) {
    const text = await withServer(server, redis => redis.cluster('NODES')).catch(() => '')
    const own = String(text)
      .split('\n')
      .find(line => line.includes('myself,master'))
    const ranges =
      own
        ?.trim()
        .split(' ')
        .slice(8)
        .filter(range => !range.startsWith('[')) ?? []
    if (ranges.length === 0) continue
    found.push({
      server,
      ranges: ranges.map(range => {
        const [from, to = from] = range.split('-').map(Number) as [number, number?]
        return [from, to]
      }),
    })
  }
  return found
}

/** Whether every server sees three masters that serve all slots, and a replica of each that follows. */
async function isWhole(servers: readonly RedisProcess[]): Promise<boolean> {
  for (const server of servers) {
    const sound = await withServer(server, async redis => {
      const [state, nodes] = [String(await redis.cluster('INFO')), String(await redis.cluster('NODES'))]
      const lines = nodes.trim().split('\n')
      const replicas = lines.filter(line => line.includes('slave'))
      const isKnown = lines.length === servers.length && replicas.length === MASTERS && !nodes.includes('fail')
      const link = await readLink(redis)
      return isKnown && state.includes('cluster_state:ok') && (link === 'followed' || link === 'following')
    }).catch(() => false)
    if (!sound) return false
  }
  return true
}

async function moveSlot(
  servers: readonly RedisProcess[],
  { slot, from, to, between }: { slot: number; from: RedisProcess; to: RedisProcess; between: () => Promise<void> },
): Promise<void> {
  const [fromId, toId] = [await idOf(from), await idOf(to)]
  const set = (server: RedisProcess, ...words: string[]): Promise<unknown> =>
    withServer(server, redis => redis.call('CLUSTER', ['SETSLOT', String(slot), ...words]))
  await set(to, 'IMPORTING', fromId)
  await set(from, 'MIGRATING', toId)
  let isFirst = true
  await withServer(from, async redis => {
    for (;;) {
      const keys = (await redis.call('CLUSTER', ['GETKEYSINSLOT', String(slot), String(KEYS_PER_MOVE)])) as string[]
      if (keys.length === 0) return
      await redis.call('MIGRATE', ['127.0.0.1', linkPort(to), '', '0', '5000', 'KEYS', ...keys])
      if (isFirst) await between()
      isFirst = false
    }
  })
  await set(to, 'NODE', toId)
  await set(from, 'NODE', toId)
  for (const server of servers)
    if (server !== from && server !== to) await set(server, 'NODE', toId).catch(() => undefined)
}
