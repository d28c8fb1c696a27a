/** Large values streamed from a real Redis: every byte in order, and an error for whatever cannot be read. */
import { randomBytes } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect } from 'chai'
import type { Redis } from '#infra/redis/redis.ts'
import { readValues, ValueMissing } from '#infra/redis/value-stream.ts'
import { seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'

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

  /** Stores values and returns their keys. */
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
