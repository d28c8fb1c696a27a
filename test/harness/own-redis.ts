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
  tls: undefined,
  user: undefined,
  password: undefined,
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

/** Starts a master, a replica and three Sentinels that replace the one by the other; with passwords and TLS everywhere. */
export const openOwnSentinels = () =>
  withProcesses(async processes => {
    const secured = ['--requirepass', PASSWORD, '--masterauth', PASSWORD, '--tls-replication', 'yes']
    const master = await processes.open('master', secured)
    const replica = await processes.open('replica', [...secured, '--replicaof', `127.0.0.1 ${master.tlsPort}`])
    const servers = [master, replica]
    const isFollowed = async () => (await withServer(master, readLink, LOGIN)) === 'followed'
    await eventually(isFollowed, 'the replica to follow')
    const lines = [
      'tls-replication yes',
      `sentinel monitor ${MASTER_NAME} 127.0.0.1 ${master.tlsPort} 2`,
      `sentinel auth-pass ${MASTER_NAME} "${PASSWORD}"`,
      `sentinel down-after-milliseconds ${MASTER_NAME} 1000`,
      `sentinel failover-timeout ${MASTER_NAME} 4000`,
      `requirepass "${SENTINEL_PASSWORD}"`,
      `sentinel sentinel-pass "${SENTINEL_PASSWORD}"`,
    ]
    const sentinels: RedisProcess[] = []
    for (const name of ['sentinel-1', 'sentinel-2', 'sentinel-3'])
      sentinels.push(await processes.openSentinel(name, lines))
    const hosts = sentinels.map(({ tlsPort }) => `127.0.0.1:${tlsPort}`)
    const asked = sentinels[0] as RedisProcess
    const ask = (...words: string[]): Promise<unknown> =>
      withServer(asked, redis => redis.call('SENTINEL', words), `:${encodeURIComponent(SENTINEL_PASSWORD)}@`)
    const agree = async (): Promise<boolean> => String(await ask('CKQUORUM', MASTER_NAME)).includes('3 usable')
    await eventually(agree, 'the Sentinels to know each other')
    const variables: Reached['variables'] = {
      REDIS_URL: `rediss-sentinel://${hosts.join(',')}?master=${MASTER_NAME}`,
      ...TLS_FILES(processes),
      REDIS_PASSWORD: PASSWORD,
      REDIS_SENTINEL_PASSWORD: SENTINEL_PASSWORD,
    }
    return {
      /** The master at first comes first. */
      servers: servers as readonly RedisProcess[],
      variables,
      close: processes.close,
      async master(): Promise<RedisProcess> {
        const [, port] = (await ask('GET-MASTER-ADDR-BY-NAME', MASTER_NAME)) as string[]
        return servers.find(({ tlsPort }) => tlsPort === Number(port)) as RedisProcess
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

/** Starts a Cluster of three masters with a replica each; all of it speaks TLS. */
export const openOwnRedisCluster = () =>
  withProcesses(async processes => {
    const servers: RedisProcess[] = []
    let firstBus = 0
    for (let id = 1; id <= 2 * MASTERS; id++) {
      const bus = await processes.freePort(`cluster-${id}-bus`)
      const settings = ['--cluster-enabled', 'yes', '--cluster-port', String(bus), '--cluster-node-timeout', '1500']
      const secured = ['--tls-cluster', 'yes', '--tls-replication', 'yes', '--cluster-replica-validity-factor', '0']
      const server = await processes.open(`cluster-${id}`, [...settings, ...secured])
      servers.push(server)
      firstBus ||= bus
      const address = ['127.0.0.1', String(servers[0]?.tlsPort), String(firstBus)]
      if (id > 1) await withServer(server, redis => redis.call('CLUSTER', ['MEET', ...address]))
    }
    await assign(servers)
    const hosts = servers.map(({ tlsPort }) => `127.0.0.1:${tlsPort}`)
    const serving = async (slot: number, isWanted: boolean): Promise<RedisProcess> => {
      for (const server of servers) if ((await serves(server, slot)) === isWanted) return server
      throw new Error(`no server says that it serves slot ${slot}`)
    }
    const whole = async (limitMs: number): Promise<void> => {
      await eventually(() => isWhole(servers), 'every slot to be served', limitMs)
    }
    await whole(LINK_LIMIT_MS)
    const variables: Reached['variables'] = {
      REDIS_URL: `rediss-cluster://${hosts.join(',')}`,
      ...TLS_FILES(processes),
    }
    return {
      servers: servers as readonly RedisProcess[],
      variables,
      close: processes.close,
      /** Resolves when every slot is served and every server knows it. */
      whole,
      masterOf: (slot: number) => serving(slot, true),
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

const idOf = (server: RedisProcess): Promise<string> =>
  withServer(server, async redis => String(await redis.call('CLUSTER', ['MYID'])))

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

/** Whether a server is a master with slots and serves one, by what it says of itself; undefined of any other. */
async function serves(server: RedisProcess, slot: number): Promise<boolean | undefined> {
  const text = await withServer(server, redis => redis.cluster('NODES')).catch(() => '')
  const [own = ''] = /^.*myself,master.*$/m.exec(String(text)) ?? []
  const ranges = own
    .trim()
    .split(' ')
    .slice(8)
    .filter(range => !range.startsWith('['))
  if (ranges.length === 0) return undefined
  return ranges.some(range => {
    const [from, to = from] = range.split('-').map(Number) as [number, number?]
    return slot >= from && slot <= to
  })
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
      await redis.call('MIGRATE', ['127.0.0.1', String(to.tlsPort), '', '0', '5000', 'KEYS', ...keys])
      if (isFirst) await between()
      isFirst = false
    }
  })
  await set(to, 'NODE', toId)
  await set(from, 'NODE', toId)
  for (const server of servers)
    if (server !== from && server !== to) await set(server, 'NODE', toId).catch(() => undefined)
}
