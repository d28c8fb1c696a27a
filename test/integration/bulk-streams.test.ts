import { randomBytes } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect } from 'chai'
import { closeRedis, openRedis, type Redis } from '#infra/redis/redis.ts'
import { openStreamPermits, type StreamPermit } from '#infra/redis/stream-permits.ts'
import { readValues, ValueMissing } from '#infra/redis/value-stream.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { eventually } from '#test/harness/eventually.ts'
import { seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'

type StreamPermits = ReturnType<typeof openStreamPermits>

const LEASE_MS = 600_000

describe('permits of streams', () => {
  const platform = useServers({ setUp: false })
  const connections: Redis[] = []
  let subjects = 0
  const subject = (): string => `ask:key-${subjects++}`

  /** Slots as another process would open them. */
  const openOn = (i: number, options: { leaseMs?: number; renewEveryMs?: number } = {}): StreamPermits =>
    openStreamPermits(connections[i] as Redis, { prefix: platform.namespace, ...options })
  const leaseOf = (name: string): string => `${platform.namespace}{stream:${name}}:lease`

  before(async () => {
    for (let i = 0; i < 4; i++) connections.push(await platform.openRedis())
  })

  const started = async (permits: StreamPermits, name: string, limit = 50): Promise<StreamPermit> => {
    const start = await permits.start(name, limit)
    if (start.kind !== 'started') throw new Error(start.kind)
    return start.permit
  }

  it('are taken by one of many that ask at once', async () => {
    const name = subject()
    const asked = await Promise.all(
      Array.from({ length: 64 }, (_, i) => openOn(i % connections.length).start(name, 300)),
    )
    const kinds = Map.groupBy(asked, ({ kind }) => kind)
    expect(kinds.get('started')).to.have.length(1)
    expect(kinds.get('busy')).to.have.length(63)
    for (const { quota } of asked) expect(quota.remaining).to.equal(299)
    for (const start of asked) if (start.kind === 'started') await start.permit.release()
  })

  it('are given out as often as the limit says and not once less, to many that ask without pause', async () => {
    const name = subject()
    const limit = 37
    let admitted = 0
    await Promise.all(
      Array.from({ length: 16 }, async (_, i) => {
        const permits = openOn(i % connections.length)
        for (;;) {
          const start = await permits.start(name, limit)
          if (start.kind === 'spent') return
          if (start.kind === 'busy') continue
          admitted += 1
          await start.permit.release()
        }
      }),
    )
    expect(admitted).to.equal(limit)
    const quota = await openOn(0).read(name, limit)
    expect(quota.remaining).to.equal(0)
    // A day, less what the test took.
    expect(quota.retryAfterSeconds).to.be.within(86_000, 86_400)
  })

  it('come back one by one as starts leave the window', async () => {
    const name = subject()
    const starts = `${platform.namespace}{stream:${name}}:starts`
    const kindOf = async (): Promise<string> => {
      const start = await openOn(0).start(name, 2)
      if (start.kind === 'started') await start.permit.release()
      return start.kind
    }
    const kinds = [await kindOf(), await kindOf(), await kindOf()]
    for (let left = 0; left < 2; left++) {
      const [oldest = ''] = (await connections[0]?.zrange(starts, '0', '0')) ?? []
      await connections[0]?.zincrby(starts, -DAY_MS, oldest)
      kinds.push(await kindOf(), await kindOf())
    }
    expect(kinds).to.deep.equal(['started', 'started', 'spent', 'started', 'spent', 'started', 'spent'])
  })

  it('are given back when nothing was streamed', async () => {
    const name = subject()
    const permits = openOn(1)
    await (await started(permits, name)).undo()
    expect((await permits.read(name, 50)).remaining).to.equal(50)
    await (await started(permits, name)).release()
    expect((await permits.read(name, 50)).remaining).to.equal(49)
  })

  it('stay held for as long as their stream runs: they are renewed again and again', async () => {
    const name = subject()
    const permit = await started(openOn(2, { leaseMs: LEASE_MS, renewEveryMs: 20 }), name)
    for (let renewals = 0; renewals < 3; renewals++) {
      await connections[3]?.pexpire(leaseOf(name), 2 * LEASE_MS)
      const isRenewed = async () => ((await connections[3]?.pttl(leaseOf(name))) ?? 0) <= LEASE_MS
      await eventually(isRenewed, 'a renewal')
      expect((await openOn(3).start(name, 50)).kind).to.equal('busy')
    }
    expect(permit.lost.aborted).to.equal(false)
    await permit.release()
    await (await started(openOn(3), name)).release()
  })

  it('of a process that died become free when their lease ends', async () => {
    const name = subject()
    // Its connection ends, so nothing is renewed any more.
    const dying = await openRedis(platform.config, { name: 'dying', log: platform.log })
    const permit = await started(openStreamPermits(dying, { prefix: platform.namespace, leaseMs: LEASE_MS }), name)
    await closeRedis(dying)
    await permit.release()
    expect((await openOn(0).start(name, 50)).kind).to.equal('busy')
    expect(await connections[0]?.pttl(leaseOf(name))).to.be.within(1, LEASE_MS)
    // As if it had ended.
    await connections[0]?.del(leaseOf(name))
    await (await started(openOn(0), name)).release()
  })

  it('that could not be renewed in time are lost, which their stream learns', async () => {
    const dying = await openRedis(platform.config, { name: 'dying', log: platform.log })
    const permit = await started(openStreamPermits(dying, { prefix: platform.namespace, leaseMs: 200 }), subject())
    await closeRedis(dying)
    await eventually(() => permit.lost.aborted, 'the loss to be noticed')
    await permit.release()
  })

  it('that another has taken are lost, and freeing them frees nothing of the other', async () => {
    const name = subject()
    const permit = await started(openOn(0, { renewEveryMs: 20 }), name)
    await connections[1]?.set(leaseOf(name), 'another')
    await eventually(() => permit.lost.aborted, 'the loss to be noticed')
    await permit.release()
    expect(await connections[1]?.get(leaseOf(name))).to.equal('another')
  })
})

describe('values streamed from Redis', () => {
  const platform = useServers({ setUp: false })
  const never = new AbortController().signal
  let redis: Redis
  before(async () => {
    redis = await platform.openRedis()
  })

  const keyOf = (name: string): string => `${platform.namespace}${name}`
  const url = (): string => platform.config.servers.redis
  const source = (given = url()) => ({ settings: { servers: { redis: given }, redis: platform.config.redis }, redis })

  async function store(name: string, values: readonly Buffer[]): Promise<string[]> {
    const keys = values.map((_, i) => keyOf(`${name}:${i}`))
    for (const [i, key] of keys.entries()) await redis.set(key, values[i] as Buffer)
    return keys
  }

  async function readAll(keys: readonly string[], options: { url?: string; signal?: AbortSignal } = {}) {
    const read: Buffer[] = keys.map(() => Buffer.alloc(0))
    for await (const { index, bytes } of readValues({
      ...source(options.url),
      keys,
      signal: options.signal ?? never,
    })) {
      read[index] = Buffer.concat([read[index] as Buffer, bytes])
    }
    return read
  }

  const failureOf = (work: Promise<unknown>): Promise<unknown> => work.then(() => undefined).catch(error => error)

  it('arrive whole and in order, whatever their sizes, to readers of any speed', async () => {
    const random = seededRandom('values')
    // Sizes around that of the buffer make headers and ends of values fall apart.
    const sizes = Array.from({ length: 60 }, () =>
      random.pick([0, 1, random.integer(2, 300), random.integer(130_900, 131_200), random.integer(1, 1_000_000)]),
    )
    const values = sizes.map(size => randomBytes(size))
    const keys = await store('sizes', values)
    expect((await readAll(keys)).map(bytes => bytes.toString('base64'))).to.deep.equal(
      values.map(bytes => bytes.toString('base64')),
    )
    let at = 0
    const whole = Buffer.concat(values)
    for await (const { bytes } of readValues({ ...source(), keys, signal: never })) {
      if (random.chance(0.2)) await nextTurn()
      expect(bytes.equals(whole.subarray(at, at + bytes.length))).to.equal(true)
      at += bytes.length
    }
    expect(at).to.equal(whole.length)
  })

  it('end in an error where one is missing, after those before it', async () => {
    const keys = await store('missing', [Buffer.from('a'), Buffer.from('b'), Buffer.from('c')])
    await redis.del(keys[1] as string)
    const seen: number[] = []
    const work = async (): Promise<void> => {
      for await (const { index } of readValues({ ...source(), keys, signal: never })) seen.push(index)
    }
    expect(await failureOf(work())).to.be.instanceOf(ValueMissing)
    expect(seen).to.deep.equal([0])
  })

  it('end in an error where one is no text, when no server answers, and when aborted', async () => {
    await redis.hset(keyOf('hash'), 'a', 'b')
    expect(String(await failureOf(readAll([keyOf('hash')])))).to.include('WRONGTYPE')
    expect(await failureOf(readAll(['a'], { url: 'redis://127.0.0.1:1' }))).to.be.instanceOf(Error)
    expect(await failureOf(readAll(['a'], { url: 'http://127.0.0.1:1' }))).to.match(/REDIS_URL/)
    const [key = ''] = await store('stopped', [randomBytes(5_000_000)])
    const stop = new AbortController()
    const work = async (): Promise<void> => {
      for await (const _ of readValues({ ...source(), keys: [key], signal: stop.signal }))
        stop.abort(new Error('enough'))
    }
    expect(String(await failureOf(work()))).to.include('enough')
    expect(String(await failureOf(readAll([key], { signal: stop.signal })))).to.include('enough')
  })

  it('are read as the user and from the database that the address names', async () => {
    const user = `reader-${platform.namespace.replace('.', '')}`
    await redis.acl('SETUSER', user, 'on', '>pass word', '~*', '+@all')
    const address = new URL(url())
    address.username = user
    address.password = 'pass word'
    const [key = ''] = await store('user', [Buffer.from('zero')])
    try {
      expect(String(await readAll([key], { url: address.href }))).to.equal('zero')
      address.pathname = '/1'
      expect(await failureOf(readAll([key], { url: address.href }))).to.be.instanceOf(ValueMissing)
      address.password = 'wrong'
      expect(String(await failureOf(readAll([key], { url: address.href })))).to.include('WRONGPASS')
    } finally {
      await redis.acl('DELUSER', user)
    }
  })
})
