/**
 * A Cluster with TLS while its slots move: large values, scans and writes find their keys, and what cannot be answered says so.
 */
import { randomBytes } from 'node:crypto'
import { expect } from 'chai'
import { Fenced, writeGuarded } from '#infra/redis/guarded-write.ts'
import { type Redis, slotOf } from '#infra/redis/redis.ts'
import { readSlots, requireNoEviction, scanKeys, UnfitRedis } from '#infra/redis/servers.ts'
import { readValues, ValueMissing } from '#infra/redis/value-stream.ts'
import { eventually, within } from '#test/harness/eventually.ts'
import { type OwnRedisCluster, openOwnRedisCluster, withServer } from '#test/harness/own-redis.ts'
import { useServers } from '#test/harness/use-servers.ts'

const VALUES = 60

describe('a Redis Cluster with TLS', () => {
  let cluster: OwnRedisCluster
  const platform = useServers({
    setUp: false,
    redis: async () => {
      cluster = await openOwnRedisCluster({ tls: true })
      return cluster
    },
  })
  let redis: Redis
  before(async () => {
    redis = await platform.openRedis()
  })

  const keyOf = (name: string): string => `${platform.namespace}${name}`

  /** Values of many sizes all over the Cluster. */
  async function store(name: string): Promise<Map<string, Buffer>> {
    const values = new Map<string, Buffer>()
    for (let i = 0; i < VALUES; i++) values.set(keyOf(`${name}:${i}`), randomBytes(i % 7 === 0 ? 300_000 : 50 * i))
    for (const [key, value] of values) await redis.set(key, value)
    return values
  }

  /** Reads values as a bulk stream does; `at` is called before each of them is taken. */
  async function readAll(keys: readonly string[], at: (index: number) => Promise<void> = async () => undefined) {
    const read = keys.map(() => Buffer.alloc(0))
    const signal = new AbortController().signal
    let reached = -1
    for await (const { index, bytes } of readValues({ settings: platform.config, redis, keys, signal })) {
      if (index !== reached) await at(index)
      reached = index
      read[index] = Buffer.concat([read[index] as Buffer, bytes])
    }
    return read
  }

  async function expectWhole(values: ReadonlyMap<string, Buffer>, at?: (index: number) => Promise<void>) {
    const read = await within(readAll([...values.keys()], at), 'all values')
    expect(read.map(bytes => bytes.toString('base64'))).to.deep.equal(
      [...values.values()].map(bytes => bytes.toString('base64')),
    )
  }

  it('streams large values of all its servers in their order', async () => {
    const values = await store('all')
    await expectWhole(values)
    expect(new Set([...values.keys()].map(slotOf)).size).to.be.above(VALUES / 2)
  })

  it('streams values of slots that have moved, that move meanwhile, and that are half moved', async () => {
    const values = await store('moved')
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
    const missing = await readAll(keys).catch(error => error)
    expect(missing).to.be.instanceOf(ValueMissing)
  })

  it('carries a write out once when a slot that moves comes to rest, and refuses a former owner then as well', async () => {
    const tag = keyOf('{moving}')
    const [guard, old, fresh] = [`${tag}:guard`, `${tag}:old`, `${tag}:new`]
    await redis.mset(guard, '1', old, 'x')
    const slot = slotOf(guard)
    const write = (expected: string, value: string): Promise<void> =>
      writeGuarded(redis, { guard, expected, value, writes: [{ command: 'HSET', key: fresh, args: [value, value] }] })
    let writing: Promise<void> | undefined
    await cluster.move([slot], await cluster.otherMaster(slot), async () => {
      // One key exists, and the other one nowhere: TRYAGAIN until all are at one server.
      writing = write('1', '2')
      writing.catch(() => undefined)
      await eventually(async () => (await readSlots(redis)) === undefined, 'the slot to be half moved')
    })
    await within(writing as Promise<void>, 'the write')
    expect([await redis.get(guard), await redis.hgetall(fresh)]).to.deep.equal(['2', { 2: '2' }])
    expect(await write('1', '3').catch(error => error)).to.be.instanceOf(Fenced)
    expect(await readSlots(redis))
      .to.be.a('string')
      .and.not.equal('')
  })

  it('finds the keys of every server', async () => {
    const names = Array.from({ length: 200 }, (_, i) => keyOf(`scanned:${i}`))
    for (const name of names) await redis.set(name, '1')
    const found = new Set<string>()
    for await (const keys of scanKeys(redis, `${keyOf('scanned:')}*`, 10)) for (const key of keys) found.add(key)
    expect([...found].sort()).to.deep.equal(names.sort())
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
