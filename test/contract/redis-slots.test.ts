/**
 * Every use of Redis on a Cluster: it works, each script runs, and no call touches keys of two slots.
 *
 * What the servers carry out is read from them (MONITOR), with what scripts do inside. So keys that a script derives count as
 * well: a Cluster would notice those of another server, and not those of another slot of the same one.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { openExpiringTokens } from '#infra/redis/expiring-tokens.ts'
import { nextVersion } from '#infra/redis/guarded-write.ts'
import { openLease, withLeases } from '#infra/redis/lease.ts'
import { openAddressLimit } from '#infra/redis/rate-limit.ts'
import { mastersOf, type Redis, slotOf } from '#infra/redis/redis.ts'
import { openRequestMeter } from '#infra/redis/request-meter.ts'
import { openStreamLeases } from '#infra/redis/stream-leases.ts'
import { openStreamPermits } from '#infra/redis/stream-permits.ts'
import { readValues } from '#infra/redis/value-stream.ts'
import { openLiveReader } from '#streams/live-view/reader.ts'
import { itemKey } from '#streams/live-view/table.ts'
import { view as liveView } from '#streams/live-view/view.ts'
import { openMarketViews } from '#streams/market-summary/reader.ts'
import { ARBITRAGE, arbitrageColumns, columnBytes } from '#streams/market-summary/table.ts'
import { openHealthReader } from '#streams/provider-health/reader.ts'
import { view as healthView } from '#streams/provider-health/view.ts'
import { computedLeaseKey, publishVersion } from '#streams/runner/computed-versions.ts'
import { buildKeyOf, compareRows, dropVersions, newestKeyOf } from '#streams/runner/redis-versions.ts'
import { openOwnSink } from '#test/fixtures/redis-views.ts'
import { judgedRecords, write } from '#test/fixtures/sink-records.ts'
import { openSnapshotMarket, type SnapshotMarket } from '#test/fixtures/snapshot-market.ts'
import { eventually } from '#test/harness/eventually.ts'
import { type OwnRedisCluster, openOwnRedisCluster } from '#test/harness/own-redis.ts'
import { seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'

/** A command that a client sent, and those that it carried out inside. */
interface Call {
  words: string[]
  inner: string[][]
}

/** Longer than any of the tests. */
const LEASE_MS = 600_000

/** Rooms with scripts of their own. */
const VIEWS = ['runner', 'live-view', 'provider-health']
const SCRIPT_ROOMS = ['infra/redis', ...VIEWS.map(view => `streams/${view}`)]
const SCRIPT = /const [A-Z]+ = `([^`]*redis\.call[^`]*)`/g

describe('Redis on a Cluster', () => {
  let cluster: OwnRedisCluster | undefined
  const platform = useServers({
    setUp: false,
    redis: async () => {
      cluster = await openOwnRedisCluster()
      return cluster
    },
  })
  let redis: Redis
  let market: SnapshotMarket
  const calls: Call[] = []
  const monitors: Redis[] = []
  const limits = { perMinute: 5, perMonth: 8 }

  before('what the masters are asked', async () => {
    redis = await platform.openRedis()
    for (const master of mastersOf(redis)) {
      const monitor = await master.monitor()
      monitors.push(monitor)
      // Each server's calls in their order: what a script does follows it.
      let last: Call | undefined
      monitor.on('monitor', (_time: string, quoted: string[], source: string) => {
        const words = quoted.map(unquoted)
        if (source === 'lua') return void last?.inner.push(words)
        last = { words, inner: [] }
        if (words.some(word => word.includes(platform.namespace))) calls.push(last)
      })
    }
    market = await openSnapshotMarket({
      redis,
      prefix: platform.namespace,
      log: platform.log,
      baseUrl: platform.config.baseUrl,
      items: 80,
    })
  })
  after(async () => {
    await market?.close()
    for (const monitor of monitors) monitor.disconnect()
  })

  it('keeps the live view and its snapshots, and streams them', async () => {
    const { namespace: prefix, config } = platform
    for (const partition of market.partitions) await market.flush(partition, market.randomRecords(partition, 60))
    await market.built()
    const keys = market.providers.map(({ key }) => key).sort()
    const reader = openLiveReader(redis, prefix, { ask: keys, bid: keys })
    for (const side of ['ask', 'bid'] as const) {
      const listed = await reader.listing(side, keys, 0, 1_000)
      expect(listed.total, `${side} listed`).to.equal(market.lines(side).length).and.to.be.above(0)
      const itemIds = [...new Set(listed.entries.map(({ itemId }) => itemId))]
      expect((await reader.ofItems(side, itemIds)).flatMap(({ entries }) => entries).length).to.equal(listed.total)
      const [first] = await reader.ofItems(side, itemIds.slice(0, 1))
      expect(first?.entries.length).to.be.above(0)
      expect((await reader.pinItems(side, itemIds, 'topic')).entries.length).to.equal(listed.total)
      const pinned = await reader.pinSnapshot(side, keys)
      expect(pinned.lines).to.equal(listed.total)
      const read = new Map<number, number>()
      const wanted = pinned.segments.map(({ key }) => key)
      const signal = new AbortController().signal
      for await (const { index, bytes } of readValues({ settings: config, redis, keys: wanted, signal }))
        read.set(index, (read.get(index) ?? 0) + bytes.length)
      expect(read.size).to.equal(wanted.length)
      for (const [index, segment] of pinned.segments.entries())
        expect((await redis.strlen(segment.key)) === read.get(index)).to.equal(true)
    }
  })

  it('compares versions, and deletes those that nobody reads', async () => {
    const of = { redis, prefix: platform.namespace, partition: 1 }
    const version = await nextVersion(redis, newestKeyOf(liveView, of))
    const key = itemKey(1, version, 'ask', 1, of.prefix)
    await redis.hset(key, 'a', 'left')
    const versions = { found: { ...of, version: 1 }, expected: { ...of, version }, leftOut: new Map() }
    const { different } = await compareRows(liveView, [versions], () => undefined)
    expect(different.get('ask:item:1 a')).to.deep.include({ expected: 'left' })
    await withLeases(redis, [buildKeyOf(liveView, of)], () =>
      dropVersions(liveView, [of], each => each.version === version),
    )
    expect(await redis.exists(key)).to.equal(0)
  })

  it("keeps providers' health and the market's views", async () => {
    const { namespace: prefix } = platform
    const sink = await openOwnSink(healthView, { redis, prefix, partition: 0 })
    await write(sink, judgedRecords(seededRandom('health'), 50))
    const readHealth = openHealthReader(redis, prefix)
    expect((await readHealth()).size).to.be.above(0)
    const lease = openLease(redis, computedLeaseKey(ARBITRAGE.view, prefix), LEASE_MS)
    await lease.hold()
    const facts = { providers: ['a'], excluded: { ask: {}, bid: {} } }
    const values = { columns: columnBytes(arbitrageColumns(2_000)) }
    for (const asOf of [1, 2]) await publishVersion({ redis, prefix }, ARBITRAGE, lease, { asOf, facts, values })
    expect((await openMarketViews({ redis, prefix }).arbitrage())?.asOf).to.equal(2)
  })

  it('counts requests, addresses, streams and tokens', async () => {
    const { namespace: prefix } = platform
    const now = Date.now()
    const meter = openRequestMeter(redis, { prefix, now: () => now })
    const ids = ['one', 'two', 'three', 'four']
    for (const id of ids) {
      const taken = await Promise.all(Array.from({ length: 9 }, () => meter.take(id, limits, { countsInMonth: true })))
      expect(taken.filter(({ refusedBy }) => refusedBy === undefined)).to.have.length(limits.perMinute)
      expect((await meter.read(id, limits)).month.remaining).to.equal(limits.perMonth - limits.perMinute)
    }
    expect(await meter.monthOf(ids)).to.deep.equal(ids.map(() => limits.perMinute))
    const addresses = openAddressLimit(redis, { prefix, perMinute: 1 })
    const charged = await Promise.all([1, 2].map(() => addresses.charge('192.0.2.1', 'requests')))
    expect(charged.filter(seconds => seconds === undefined)).to.have.length(1)
    const permits = openStreamPermits(redis, { prefix, leaseMs: LEASE_MS })
    const start = await permits.start('ask:key', 2)
    if (start.kind !== 'started') throw new Error(start.kind)
    expect((await permits.start('ask:key', 2)).kind).to.equal('busy')
    const leases = openStreamLeases(redis, { prefix, name: 'feed', leaseMs: LEASE_MS })
    const lease = await leases.take('key', 1)
    expect(await leases.take('key', 1)).to.equal(undefined)
    // Renewed often, which the other is not while the test lasts.
    const renewing = openStreamLeases(redis, { prefix, name: 'other-feed', leaseMs: 300 })
    const renewed = await renewing.take('key', 1)
    await eventually(() => scriptsSeen().some(script => script.includes('local replaced = {}')), 'a renewal')
    await start.permit.release()
    for (const one of [lease, renewed]) one?.release()
    for (const one of [leases, renewing]) await one.close()
    const tokens = openExpiringTokens(redis, { prefix, name: 'feed', ttlMs: LEASE_MS, now: Date.now })
    const { token } = await tokens.issue('text')
    await tokens.keep(token, 2 * LEASE_MS)
    expect(await tokens.read(token)).to.equal('text')
  })

  const scriptsSeen = (): string[] =>
    calls.flatMap(({ words }) => (/^eval/i.test(words[0] ?? '') ? [words[1] as string] : []))

  /** A script is given texts besides, of which keys are made. */
  const declaredKeys = (words: string[]): string[] =>
    /^eval/i.test(words[0] ?? '') ? words.slice(3, 3 + Number(words[2])) : words

  const scriptsMissing = (): string[] => {
    const seen = [...new Set(scriptsSeen())]
    const missing: string[] = []
    for (const room of SCRIPT_ROOMS) {
      const folder = fileURLToPath(new URL(`../../${room}/`, import.meta.url))
      for (const file of readdirSync(folder).filter(each => each.endsWith('.ts'))) {
        for (const [, text = ''] of readFileSync(folder + file, 'utf8').matchAll(SCRIPT)) {
          // What is put in at run time differs.
          const longest = text.split(/\$\{[^}]*\}/).sort((one, other) => other.length - one.length)[0] as string
          const plain = longest.replaceAll('\\\\', '\\').trim()
          if (!seen.some(script => script.includes(plain))) missing.push(`${room}/${file}: ${plain.slice(0, 80)}`)
        }
      }
    }
    return missing
  }

  it('runs every script that there is', () =>
    eventually(() => expect(scriptsMissing()).to.deep.equal([]) !== undefined, 'every script'))

  it('asks for keys of one slot alone in each call, inside of scripts too', () => {
    expect(calls.length).to.be.above(200)
    const crossing = calls.flatMap(({ words, inner }) => {
      const keys = [declaredKeys(words), ...inner].flat().filter(word => word.startsWith(platform.namespace))
      return new Set(keys.map(slotOf)).size > 1 ? [`${words[0]}: ${[...new Set(keys)].join(' ')}`] : []
    })
    expect(crossing).to.deep.equal([])
    expect(calls.some(({ inner }) => inner.length > 1)).to.equal(true)
    expect(monitors, 'masters').to.have.length(3)
  })
})

/** A word as it was sent: MONITOR quotes what cannot be shown. */
const unquoted = (word: string): string =>
  word.replace(/\\(x[0-9a-f]{2}|.)/g, (_all, code: string) =>
    code.length > 1 ? String.fromCharCode(Number.parseInt(code.slice(1), 16)) : (QUOTED[code] ?? code),
  )

const QUOTED: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', a: '\x07', b: '\b' }
