/**
 * One server with TLS, and a master with its replica under Sentinels: who may come in, and what a failover does to commands.
 */
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { Fenced, writeGuarded } from '#infra/redis/guarded-write.ts'
import { closeRedis, openRedis, type Redis } from '#infra/redis/redis.ts'
import { requireNoEviction, UnfitRedis } from '#infra/redis/servers.ts'
import { readValues } from '#infra/redis/value-stream.ts'
import { type PlatformConfig, readConfig } from '#infra/runtime/config.ts'
import { openLog } from '#infra/runtime/log.ts'
import { eventually, within } from '#test/harness/eventually.ts'
import {
  type OwnRedis,
  type OwnSentinels,
  openOwnRedis,
  openOwnSentinels,
  PLAIN_ACCESS,
  withServer,
} from '#test/harness/own-redis.ts'
import { openRedisProcesses } from '#test/harness/redis-processes.ts'
import { runCommand } from '#test/harness/run-command.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { openWireProxy } from '#test/harness/wire-proxy.ts'

const LIMIT_MS = 20_000

const textOf = async (config: PlatformConfig, redis: Redis, key: string): Promise<string> => {
  let read = Buffer.alloc(0)
  const signal = new AbortController().signal
  for await (const { bytes } of readValues({ settings: config, redis, keys: [key], signal }))
    read = Buffer.concat([read, bytes])
  return read.toString('base64')
}

describe('a Redis with TLS', () => {
  let own: OwnRedis
  const platform = useServers({
    setUp: false,
    redis: async () => {
      own = await openOwnRedis()
      return own
    },
  })
  const configOf = (changes: Record<string, string>): PlatformConfig =>
    readConfig({ ...platform.environment, ...changes })
  const failureOf = async (changes: Record<string, string>): Promise<string> => {
    const open = openRedis(configOf(changes), { name: 'refused', log: platform.log })
    return open.then(
      async redis => closeRedis(redis).then(() => 'opened'),
      error => String(error),
    )
  }

  it('is reached with the files and the password that the settings name, for large values too', async () => {
    const redis = await platform.openRedis()
    const [key, value] = [`${platform.namespace}large`, randomBytes(400_000)]
    await redis.set(key, value)
    expect(await textOf(platform.config, redis, key)).to.equal(value.toString('base64'))
    const file = join(platform.config.stateDir, 'redis-password')
    writeFileSync(file, `${platform.environment.REDIS_PASSWORD}\n`)
    expect(await failureOf({ REDIS_PASSWORD: '', REDIS_PASSWORD_FILE: file })).to.equal('opened')
    const named = `rediss://localhost:${own.server.tlsPort}`
    expect(await failureOf({ REDIS_URL: named }), 'by the name in its certificate').to.equal('opened')
  })

  it('is not reached without its authority, its certificate or its password', async () => {
    expect(await failureOf({ REDIS_TLS_CA: '' })).to.match(/certificate/)
    expect(await failureOf({ REDIS_TLS_CERT: '', REDIS_TLS_KEY: '' })).not.to.equal('opened')
    expect(await failureOf({ REDIS_PASSWORD: 'another' })).to.include('WRONGPASS')
    const plain = `redis://127.0.0.1:${own.server.tlsPort}`
    const files = { REDIS_TLS_CA: '', REDIS_TLS_CERT: '', REDIS_TLS_KEY: '' }
    expect(await failureOf({ ...files, REDIS_URL: plain })).not.to.equal('opened')
  })
})

describe('a Redis that drops keys when its memory is full', () => {
  const platform = useServers({ setUp: false, own: { redis: {} } })

  it('ends set-up with a line that says what to set, also where CONFIG is forbidden', async () => {
    const redis = await platform.openRedis()
    const { config, log } = platform
    await requireNoEviction(config, log)
    await redis.config('SET', 'maxmemory-policy', 'volatile-lru')
    await redis.acl('SETUSER', 'managed', 'on', '>secret', '~*', '+@all', '-config')
    const url = config.servers.redis.replace('redis://', 'redis://managed:secret@')
    const managed = { ...config, servers: { ...config.servers, redis: url } }
    expect(await requireNoEviction(managed, log).catch(error => error)).to.be.instanceOf(UnfitRedis)
    const { code, stderr } = await runCommand(['run', 'fx'], platform.environment)
    expect([code, stderr]).to.deep.equal([69, stderr])
    expect(stderr).to.include('maxmemory-policy volatile-lru').and.to.include('noeviction')
  })
})

describe('a master that became a replica', () => {
  it('refuses a write without effect, which then goes to the new master, once', async () => {
    // What used to happen: every write was refused until the process was started again.
    const processes = await openRedisProcesses()
    const proxy = await openWireProxy()
    const settings = { servers: { redis: `redis://127.0.0.1:${proxy.port}` }, redis: PLAIN_ACCESS }
    const log = openLog({ level: 'error', name: 'test' })
    let redis: Redis | undefined
    try {
      const [old, next] = [await processes.open('old', []), await processes.open('next', [])]
      proxy.forwardTo(old.port)
      redis = await openRedis(settings, { name: 'failover', log })
      await withServer(next, server => server.set('guard', '1'))
      await withServer(old, server => server.replicaof('127.0.0.1', next.port))
      // Until then the script finds another guard, which is no write that could be refused.
      await eventually(async () => (await redis?.get('guard')) === '1', 'the former master to follow')
      const guarded = writeGuarded(redis, { guard: 'guard', expected: '1', value: '2', writes: [] })
      const counted = Promise.all(Array.from({ length: 20 }, () => (redis as Redis).incr('count')))
      const settled = Promise.all([guarded, counted])
      await eventually(() => proxy.connections() === 0 || undefined, 'the connection to be made again')
      proxy.forwardTo(next.port)
      await within(settled, 'the writes')
      expect(await redis.mget('guard', 'count')).to.deep.equal(['2', '20'])
      const again = writeGuarded(redis, { guard: 'guard', expected: '1', value: '2', writes: [] })
      expect(await again.catch(error => error)).to.be.instanceOf(Fenced)
    } finally {
      if (redis) await closeRedis(redis)
      await proxy.close()
      await processes.close()
    }
  })
})

describe('a master under Sentinels', () => {
  let own: OwnSentinels
  const platform = useServers({
    setUp: false,
    redis: async () => {
      own = await openOwnSentinels({ tls: true })
      return own
    },
  })

  it('has its replica checked for eviction too', async () => {
    await requireNoEviction(platform.config, platform.log)
    const login = `:${encodeURIComponent(platform.environment.REDIS_PASSWORD as string)}@`
    const replica = own.servers[1] as OwnSentinels['servers'][number]
    const setPolicy = (policy: string) =>
      withServer(replica, server => server.config('SET', 'maxmemory-policy', policy), login)
    await setPolicy('allkeys-random')
    expect(await requireNoEviction(platform.config, platform.log).catch(error => error)).to.be.instanceOf(UnfitRedis)
    await setPolicy('noeviction')
  })

  for (const how of ['killed', 'frozen'] as const)
    it(`is replaced when it is ${how}: writes go on at the new master, and what it confirmed before is there`, async () => {
      const redis = await platform.openRedis()
      const master = await own.master()
      const [key, value] = [`${platform.namespace}before-${how}`, randomBytes(200_000)]
      await redis.set(key, value)
      expect(await redis.wait(1, LIMIT_MS)).to.equal(1)
      if (how === 'killed') await master.kill()
      else master.freeze()
      const startedAt = performance.now()
      await eventually(() => redis.set(`${key}-after`, '1').then(() => true), 'a write')
      console.log(`      ${how}: written again after ${((performance.now() - startedAt) / 1_000).toFixed(1)} s`)
      expect(await own.master()).not.to.equal(master)
      expect(await textOf(platform.config, redis, key)).to.equal(value.toString('base64'))
      if (how === 'killed') await master.start()
      else master.thaw()
      const login = `:${encodeURIComponent(platform.environment.REDIS_PASSWORD as string)}@`
      const follows = async (): Promise<boolean> =>
        (await withServer(master, server => server.info('replication'), login)).includes('master_link_status:up')
      await eventually(follows, 'the former master to follow')
      expect(await redis.get(`${key}-after`)).to.equal('1')
    })
})
