/**
 * One writer of what is computed of other views: a lease, and what becomes of a writer that has lost it.
 */
import { expect } from 'chai'
import { openLease } from '#infra/redis/lease.ts'
import type { Redis } from '#infra/redis/redis.ts'
import {
  CHUNK_BYTES,
  type ComputedHead,
  computedHeadKey,
  computedLeaseKey,
  openComputedReader,
  publishVersion,
  REPLACED_TTL_MS,
} from '#streams/runner/computed-versions.ts'
import { Conflict } from '#streams/runner/positions.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

const LEASE_MS = 60_000
const SNAPSHOT = { view: 'market', name: 'one', format: 1 }

describe('the writer of a computed view', () => {
  const platform = useServers({ setUp: false })
  let redis: Redis
  before(async () => {
    redis = await platform.openRedis()
  })

  /** Writes a version of so many bytes, each the last digit of its moment. */
  const write = (lease: ReturnType<typeof openLease>, prefix: string, asOf: number, bytes: number) =>
    publishVersion({ redis, prefix }, SNAPSHOT, lease, {
      asOf,
      facts: { of: asOf },
      values: { rows: new Uint8Array(bytes).fill(asOf % 10), none: new Uint8Array() },
    })
  const headIn = async (prefix: string): Promise<ComputedHead> =>
    JSON.parse((await redis.get(computedHeadKey(SNAPSHOT, prefix))) ?? '{}')
  const leaseIn = (prefix: string) => openLease(redis, computedLeaseKey(SNAPSHOT.view, prefix), LEASE_MS)

  it('has one holder, which keeps it while it renews, and loses it when it does not', async () => {
    const key = `${platform.namespace}{lease}:one`
    const [first, second] = [openLease(redis, key, LEASE_MS), openLease(redis, key, LEASE_MS)]
    expect([await first.hold(), await second.hold()]).to.deep.equal(['taken', undefined])
    for (const [renew, expected] of [
      [first.hold, 'renewed'],
      [first.renew, true],
    ] as const) {
      await redis.persist(key)
      expect(await renew()).to.equal(expected)
      expect(await redis.pttl(key), 'ends unless it is renewed').to.be.within(1, LEASE_MS)
    }
    expect(await second.renew()).to.equal(false)
    await redis.pexpire(key, 1)
    await eventually(() => second.hold(), 'the lease of a holder that fell silent')
    expect([await first.hold(), await first.renew()]).to.deep.equal([undefined, false])
    await first.release()
    expect(await second.hold(), 'released by another').to.equal('renewed')
    await second.release()
    expect(await first.renew(), 'renewed once it was gone').to.equal(false)
    expect(await first.hold()).to.equal('taken')
  })

  it('writes nothing once another has taken over', async () => {
    const prefix = `${platform.namespace}fenced.`
    const [lost, taken] = [leaseIn(prefix), leaseIn(prefix)]
    await lost.hold()
    await write(lost, prefix, 1, 3)
    await lost.release()
    await taken.hold()
    const refused = await write(lost, prefix, 2, 3).catch(error => error)
    expect(refused).to.be.instanceOf(Conflict)
    expect((await headIn(prefix)).as_of).to.equal(1)
    await write(taken, prefix, 3, 4)
    expect((await headIn(prefix)).as_of).to.equal(3)
  })

  it('leaves the version before to its readers for a while, and nothing for ever', async () => {
    const prefix = `${platform.namespace}versions.`
    const lease = leaseIn(prefix)
    await lease.hold()
    await write(lease, prefix, 1, CHUNK_BYTES + 2)
    const before = await headIn(prefix)
    const read = openComputedReader<{ of: number }, [number, number, Uint8Array]>(
      { redis, prefix },
      SNAPSHOT,
      async ({ as_of, facts }, value) => [as_of, facts.of + (await value('none')).length, await value('rows')],
    )
    expect(await read()).to.deep.equal([1, 1, new Uint8Array(CHUNK_BYTES + 2).fill(1)])
    await write(lease, prefix, 2, 5)
    const keys = await redis.keys(`${prefix}{market}:one:*`)
    expect(keys, 'two chunks, another and the head').to.have.length(4)
    for (const key of keys) {
      const ttl = await redis.pttl(key)
      if (key.includes(before.version)) expect(ttl).to.be.within(1, REPLACED_TTL_MS)
      else expect(ttl, 'stays').to.equal(-1)
    }
    await eventually(async () => (await read())?.[0] === 2, 'the new version')
    expect(await read()).to.deep.equal([2, 2, new Uint8Array(5).fill(2)])
    const later = { ...(await headIn(prefix)), format: 2 }
    await redis.set(computedHeadKey(SNAPSHOT, prefix), JSON.stringify(later))
    const next = openComputedReader({ redis, prefix }, SNAPSHOT, async ({ version }) => version)
    expect(String(await next().catch(error => error)), 'a form of a newer version').to.include('version 2 of its form')
    await redis.del(computedHeadKey(SNAPSHOT, prefix))
    await eventually(async () => (await read()) === undefined, 'nothing without a head')
  })
})
