/**
 * One server with TLS, a master with its replica under Sentinels, and a Cluster whose slots move: who may come in, what a failover does to
 * commands, and that large values and writes find their keys. What cannot be answered says so.
 */
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { writeGuarded } from '#infra/redis/guarded-write.ts'
import { closeRedis, openRedis, type Redis, slotOf } from '#infra/redis/redis.ts'
import { readSlots, requireNoEviction, UnfitRedis } from '#infra/redis/servers.ts'
import { readValues, ValueMissing } from '#infra/redis/value-stream.ts'
import { type PlatformConfig, readConfig } from '#infra/runtime/config.ts'
import { openLog } from '#infra/runtime/log.ts'
import { eventually, within } from '#test/harness/eventually.ts'
import {
  type OwnRedis,
  type OwnRedisCluster,
  type OwnSentinels,
  openOwnRedis,
  openOwnRedisCluster,
  openOwnSentinels,
  PLAIN_ACCESS,
  withServer,
} from '#test/harness/own-redis.ts'
import { openRedisProcesses } from '#test/harness/redis-processes.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { openWireProxy } from '#test/harness/wire-proxy.ts'

const LIMIT_MS = 20_000
const VALUES = 60

/** Reads values as a bulk stream does, as base64; `at` is called before each of them is taken. */
async function readAll(
  settings: PlatformConfig,
  redis: Redis,
  keys: readonly string[],
  at: (index: number) => Promise<void> = async () => undefined,
): Promise<string[]> {
  const read = keys.map(() => Buffer.alloc(0))
  const signal = new AbortController().signal
  let reached = -1
  for await (const { index, bytes } of readValues({ settings, redis, keys, signal })) {
    if (index !== reached) await at(index)
    reached = index
    read[index] = Buffer.concat([read[index] as Buffer, bytes])
  }
  return read.map(bytes => bytes.toString('base64'))
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
    expect(await readAll(platform.config, redis, [key])).to.deep.equal([value.toString('base64')])
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
    const { code, stderr } = await platform.command('run', 'fx')
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
      const second = {
        guards: [{ key: 'guard', expected: '1' }],
        writes: [{ command: 'SET', key: 'guard', args: ['2'] }],
      } as const
      const guarded = writeGuarded(redis, second)
      const counted = Promise.all(Array.from({ length: 20 }, () => (redis as Redis).incr('count')))
      const settled = Promise.all([guarded, counted])
      await eventually(() => proxy.connections() === 0 || undefined, 'the connection to be made again')
      proxy.forwardTo(next.port)
      await within(settled, 'the writes')
      expect(await redis.mget('guard', 'count')).to.deep.equal(['2', '20'])
      expect(await writeGuarded(redis, second)).to.equal(false)
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
      own = await openOwnSentinels()
      return own
    },
  })

  it('is replaced when it is frozen: writes go on at the new master, and what it confirmed before is there', async () => {
    const redis = await platform.openRedis()
    const master = await own.master()
    const [key, value] = [`${platform.namespace}before`, randomBytes(200_000)]
    await redis.set(key, value)
    expect(await redis.wait(1, LIMIT_MS)).to.equal(1)
    master.freeze()
    await eventually(() => redis.set(`${key}-after`, '1').then(() => true), 'a write')
    expect(await own.master()).not.to.equal(master)
    expect(await readAll(platform.config, redis, [key])).to.deep.equal([value.toString('base64')])
    master.thaw()
    await own.whole(LIMIT_MS)
    expect(await redis.get(`${key}-after`)).to.equal('1')
  })
})

describe('a Redis Cluster with TLS', () => {
  let cluster: OwnRedisCluster
  const platform = useServers({
    setUp: false,
    redis: async () => {
      cluster = await openOwnRedisCluster()
      return cluster
    },
  })
  let redis: Redis
  before(async () => {
    redis = await platform.openRedis()
  })

  const keyOf = (name: string): string => `${platform.namespace}${name}`

  async function store(name: string): Promise<Map<string, Buffer>> {
    const values = new Map<string, Buffer>()
    for (let i = 0; i < VALUES; i++) values.set(keyOf(`${name}:${i}`), randomBytes(i % 7 === 0 ? 300_000 : 50 * i))
    for (const [key, value] of values) await redis.set(key, value)
    return values
  }

  async function expectWhole(values: ReadonlyMap<string, Buffer>, at?: (index: number) => Promise<void>) {
    const read = await within(readAll(platform.config, redis, [...values.keys()], at), 'all values')
    expect(read).to.deep.equal([...values.values()].map(bytes => bytes.toString('base64')))
  }

  it('streams values of slots that have moved, that move meanwhile, and that are half moved', async () => {
    const values = await store('moved')
    await expectWhole(values)
    const keys = [...values.keys()]
    const [first, later] = [slotOf(keys[2] as string), slotOf(keys[VALUES - 2] as string)]
    const target = await cluster.otherMaster(first)
    // MOVED: the client that knows the slots of before asks the former server.
    await cluster.move([first], target)
    await expectWhole(values)
    // MOVED in the middle of a stream.
    await expectWhole(values, async index => {
      if (index === VALUES - 10) await cluster.move([later], await cluster.otherMaster(later))
    })
    // ASK: the key is at the new server, the slot still at the old one.
    let asked = 0
    await cluster.move([first], await cluster.otherMaster(first), async () => {
      await expectWhole(values)
      asked += 1
    })
    expect(asked).to.equal(1)
    await redis.del(keys[1] as string)
    const missing = await readAll(platform.config, redis, keys).catch(error => error)
    expect(missing).to.be.instanceOf(ValueMissing)
  })

  it('carries a write out once when a slot that moves comes to rest, and refuses a former owner then as well', async () => {
    const tag = keyOf('{moving}')
    const [guard, old, fresh] = [`${tag}:guard`, `${tag}:old`, `${tag}:new`]
    await redis.mset(guard, '1', old, 'x')
    const slot = slotOf(guard)
    const write = (expected: string, value: string): Promise<boolean> =>
      writeGuarded(redis, {
        guards: [{ key: guard, expected }],
        writes: [
          { command: 'HSET', key: fresh, args: [value, value] },
          { command: 'SET', key: guard, args: [value] },
        ],
      })
    let writing: Promise<boolean> | undefined
    await cluster.move([slot], await cluster.otherMaster(slot), async () => {
      // One key exists, and the other one nowhere: TRYAGAIN until all are at one server.
      writing = write('1', '2')
      writing.catch(() => undefined)
      await eventually(async () => (await readSlots(redis)) === undefined, 'the slot to be half moved')
    })
    expect(await within(writing as Promise<boolean>, 'the write')).to.equal(true)
    expect([await redis.get(guard), await redis.hgetall(fresh)]).to.deep.equal(['2', { 2: '2' }])
    expect(await write('1', '3')).to.equal(false)
    expect(await readSlots(redis))
      .to.be.a('string')
      .and.not.equal('')
  })

  it('is refused by set-up when one of its replicas may drop keys', async () => {
    const { config, log } = platform
    await requireNoEviction(config, log)
    const replica = cluster.servers.at(-1) as OwnRedisCluster['servers'][number]
    await withServer(replica, server => server.config('SET', 'maxmemory-policy', 'allkeys-lru'))
    const refused = await requireNoEviction(config, log).catch(error => error)
    expect(refused).to.be.instanceOf(UnfitRedis)
    expect(String(refused)).to.include(`:${replica.tlsPort}`).and.to.include('noeviction')
    await withServer(replica, server => server.config('SET', 'maxmemory-policy', 'noeviction'))
    await requireNoEviction(config, log)
  })
})
