/**
 * One writer of the market's views: a lease, and what becomes of a writer that has lost it.
 */
import { expect } from 'chai'
import { Fenced } from '#infra/redis/guarded-write.ts'
import { openLease } from '#infra/redis/lease.ts'
import type { Redis } from '#infra/redis/redis.ts'
import { openMarketViews } from '#streams/market-summary/reader.ts'
import { openViewWriter } from '#streams/market-summary/sink.ts'
import type { ArbitrageHead } from '#streams/market-summary/table.ts'
import {
  arbitrageColumns,
  arbitrageHeadKey,
  CHUNK_BYTES,
  marketLeaseKey,
  REPLACED_TTL_MS,
} from '#streams/market-summary/table.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

const LEASE_MS = 60_000

describe("the writer of the market's views", () => {
  const platform = useServers({ setUp: false })
  let redis: Redis
  before(async () => {
    redis = await platform.openRedis()
  })

  const snapshotOf = (asOf: number, rows: number) => {
    const columns = arbitrageColumns(rows)
    columns.itemId.fill(asOf % 1_000)
    return { asOf, providers: ['a', 'b'], columns, excluded: { ask: {}, bid: {} } }
  }

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
    const [lost, taken] = [1, 2].map(() => openLease(redis, marketLeaseKey(prefix), LEASE_MS)) as [
      ReturnType<typeof openLease>,
      ReturnType<typeof openLease>,
    ]
    await lost.hold()
    await openViewWriter(redis, lost, prefix).writeArbitrage(snapshotOf(1, 3))
    await lost.release()
    await taken.hold()
    const refused = await openViewWriter(redis, lost, prefix)
      .writeArbitrage(snapshotOf(2, 3))
      .then(
        () => undefined,
        error => error,
      )
    expect(refused).to.be.instanceOf(Fenced)
    expect(JSON.parse((await redis.get(arbitrageHeadKey(prefix))) ?? '{}').as_of).to.equal(1)
    await openViewWriter(redis, taken, prefix).writeArbitrage(snapshotOf(3, 4))
    expect(JSON.parse((await redis.get(arbitrageHeadKey(prefix))) ?? '{}').as_of).to.equal(3)
  })

  it('leaves the version before to its readers for a while, and nothing for ever', async () => {
    const prefix = `${platform.namespace}versions.`
    const lease = openLease(redis, marketLeaseKey(prefix), LEASE_MS)
    await lease.hold()
    const writer = openViewWriter(redis, lease, prefix)
    // More than one chunk.
    const rows = Math.ceil(CHUNK_BYTES / 30)
    await writer.writeArbitrage(snapshotOf(1, rows))
    const before = JSON.parse((await redis.get(arbitrageHeadKey(prefix))) ?? '{}') as ArbitrageHead
    expect(before.chunks).to.equal(2)
    const market = await openMarketViews(redis, prefix, platform.log)
    expect((await market.arbitrage())?.columns).to.deep.include({ rows })
    await writer.writeArbitrage(snapshotOf(2, 5))
    const keys = await redis.keys(`${prefix}{market}:arbitrage:*`)
    const ttls = await Promise.all(
      keys.map(async key => [key.includes(before.version), await redis.pttl(key)] as const),
    )
    expect(keys).to.have.length(4)
    for (const [isReplaced, ttl] of ttls) {
      if (isReplaced) expect(ttl).to.be.within(1, REPLACED_TTL_MS)
      else expect(ttl, 'stays').to.equal(-1)
    }
    await eventually(async () => (await market.arbitrage())?.head.as_of === 2, 'the new version')
    expect([...((await market.arbitrage())?.columns.itemId ?? [])]).to.deep.equal([2, 2, 2, 2, 2])
    await redis.del(arbitrageHeadKey(prefix))
    await eventually(async () => (await market.arbitrage()) === undefined, 'no snapshot without a head')
    market.stop()
  })
})
