import { inflateRawSync } from 'node:zlib'
import { expect } from 'chai'
import { loadProviders } from '#infra/config/providers.ts'
import type { Redis } from '#infra/redis/redis.ts'
import { openMetrics } from '#infra/runtime/metrics.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { openSnapshotBuilder } from '#streams/live-view/snapshot-builder.ts'
import { openSnapshotReader } from '#streams/live-view/snapshot-reader.ts'
import { openSnapshotStore } from '#streams/live-view/snapshot-store.ts'
import type { SnapshotManifest } from '#streams/live-view/table.ts'
import {
  headKey,
  manifestKey,
  REPLACED_SEGMENT_TTL_MS,
  segmentKey,
  touchedKey,
  versionsKey,
} from '#streams/live-view/table.ts'
import { view } from '#streams/live-view/view.ts'
import { readHead } from '#streams/runner/redis-versions.ts'
import type { SnapshotMarket } from '#test/fixtures/snapshot-market.ts'
import { hashOf, openSnapshotMarket, QUICK_PACE } from '#test/fixtures/snapshot-market.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

const SIDES: readonly Side[] = ['ask', 'bid']
const BASE_URL = 'https://api.example'

describe('snapshots of the live view', () => {
  const platform = useServers({ setUp: false })
  let redis: Redis
  let count = 0
  const opened: SnapshotMarket[] = []

  before(async () => {
    redis = await platform.openRedis()
  })
  afterEach(async () => {
    for (const market of opened.splice(0)) await market.close()
  })

  const open = async (options: { baseUrl?: string; prefix?: string } = {}) => {
    const prefix = options.prefix ?? `${platform.namespace}m${count++}.`
    const { baseUrl = BASE_URL } = options
    const market = await openSnapshotMarket({ redis, prefix, log: platform.log, baseUrl })
    opened.push(market)
    return { market, prefix }
  }

  /** Every segment that a manifest names, by side and provider; checks each against what the manifest says of it. */
  async function read(manifest: SnapshotManifest, partition: number, prefix: string): Promise<Map<string, string[]>> {
    const found = new Map<string, string[]>()
    for (const side of SIDES) {
      for (const [provider, entry] of Object.entries(manifest[side])) {
        const stored = await redis.getBuffer(segmentKey(partition, side, provider, entry.version, prefix))
        const lines: string[] = []
        let at = 0
        for (const [bytes, deflated] of entry.blocks) {
          const block = (stored ?? Buffer.alloc(0)).subarray(at, at + deflated)
          const text = inflateRawSync(block, { finishFlush: 2 }).toString()
          expect(text.length).to.equal(bytes)
          lines.push(...text.trimEnd().split('\n'))
          at += deflated
        }
        expect(stored?.length).to.equal(at)
        expect(lines).to.have.length(entry.lines)
        const updated = lines.map(line => Date.parse(JSON.parse(line).last_updated))
        expect(entry.updated).to.equal(Math.max(...updated))
        found.set(`${side}:${provider}`, lines)
      }
    }
    return found
  }

  /** A partition's moment as its manifest shows it. */
  async function momentOf(manifest: SnapshotManifest, partition: number, prefix: string): Promise<[string, string][]> {
    const lines = await read(manifest, partition, prefix)
    return [...lines].map(([field, texts]): [string, string] => {
      const plain = texts.map(text => JSON.stringify(JSON.parse(text)))
      return [field, hashOf(plain.join('\n'))]
    })
  }

  const sorted = (moment: Iterable<[string, string]>) => [...moment].sort()

  it('show the last moment of the table, over restarts', async () => {
    const { market, prefix } = await open()
    for (let round = 0; round < 6; round++) {
      for (const partition of market.partitions) await market.flush(partition, market.randomRecords(partition, 40))
      await market.built()
      for (const partition of market.partitions) {
        const manifest = (await market.manifest(partition)) ?? expect.fail('no manifest')
        const last = market.moments[partition]?.at(-1) ?? expect.fail('no moment')
        expect(sorted(await momentOf(manifest, partition, prefix))).to.deep.equal(sorted(last))
      }
      if (round % 2 === 1) await market.reopen()
    }
  })

  it('are refused where they are older than what was pinned before: a Redis that was set back used to answer older prices', async () => {
    const { market, prefix } = await open()
    for (const partition of market.partitions) await market.flush(partition, market.randomRecords(partition, 5))
    await market.built()
    const before = await redis.get(manifestKey(2, prefix))
    await market.flush(2, market.randomRecords(2, 5))
    await market.built()
    const reader = openSnapshotReader(redis, prefix)
    await reader.pinSnapshot('ask', [])
    await redis.set(manifestKey(2, prefix), before ?? '')
    const refusal = await reader.pinSnapshot('ask', []).then(
      () => 'none',
      (error: Error) => error.message,
    )
    expect(refusal).to.match(/^partition 2 has a snapshot of \d+, and had one of \d+$/)
  })

  it('are rebuilt when the root of the links is another', async () => {
    const { market, prefix } = await open()
    await market.flush(2, market.randomRecords(2, 30))
    await market.built()
    await market.close()
    const { market: other } = await open({ prefix, baseUrl: 'https://other.example' })
    const moved = async (): Promise<boolean> => {
      const manifest = (await other.manifest(2)) ?? expect.fail('no manifest')
      const lines = [...(await read(manifest, 2, prefix)).values()].flat().map(line => JSON.parse(line).link)
      return lines.filter(Boolean).every(link => link.startsWith('https://other.example/r/'))
    }
    await eventually(moved, 'links to the other root')
  })

  it('keep what they replace for the streams that have pinned it, and no longer', async () => {
    const { market, prefix } = await open()
    for (let round = 0; round < 3; round++) {
      await market.flush(3, market.randomRecords(3, 60))
      await market.built()
    }
    const manifest = (await market.manifest(3)) ?? expect.fail('no manifest')
    const named = new Set(
      SIDES.flatMap(side =>
        Object.entries(manifest[side]).map(([key, { version }]) => segmentKey(3, side, key, version, prefix)),
      ),
    )
    const keys = (await redis.keys(`${prefix}snapshot:{live:3}:*:*`)).filter(
      key => !/:(manifest|versions|touched)$/.test(key),
    )
    expect(keys.length).to.be.greaterThan(named.size)
    for (const key of keys) {
      const ttl = await redis.pttl(key)
      if (named.has(key)) expect(ttl, key).to.equal(-1)
      else expect(ttl, key).to.be.within(1, REPLACED_SEGMENT_TTL_MS)
    }
  })

  it('of an owner that another has fenced off are not built', async () => {
    const { market, prefix } = await open()
    await market.flush(4, market.randomRecords(4, 30))
    await market.built()
    await market.close()
    const before = await redis.get(manifestKey(4, prefix))
    const { head, text } = (await readHead(view, { redis, partition: 4, prefix })) ?? expect.fail('no head')
    await redis.hset(touchedKey(4, prefix), 'ask:provider_01', head.next + 1)
    await redis.set(headKey(4, prefix), JSON.stringify({ ...head, next: head.next + 1 }))
    const openBuilds = openSnapshotBuilder({
      redis,
      log: platform.log,
      baseUrl: BASE_URL,
      metrics: openMetrics(),
      registry: loadProviders(),
      pace: QUICK_PACE,
      catalog: Promise.resolve({ byId: () => undefined } as unknown as CatalogReader),
    })
    const other = { head: { ...head, next: 0 }, text: JSON.stringify({ ...head, next: 0 }) }
    const fenced = openBuilds({ partition: 4, prefix }, { head, text })
    // Builds take turns, so when a later one has begun its partition the fenced one has had its turn.
    await redis.set(headKey(0, `${prefix}later.`), other.text)
    const later = openBuilds({ partition: 0, prefix: `${prefix}later.` }, other)
    await eventually(async () => redis.exists(manifestKey(0, `${prefix}later.`)), 'the later build')
    expect(await redis.get(manifestKey(4, prefix))).to.equal(before)
    await fenced.close()
    await later.close()
  })

  it('are published whole or not at all', async () => {
    const prefix = `${platform.namespace}whole.`
    const store = openSnapshotStore(redis, { partition: 0, prefix })
    const entry = { version: 1, lines: 1, crc: 0, updated: 0, blocks: [[1, 3]] as [number, number][] }
    const manifest = { tableVersion: 1, next: 1, form: 'f', ask: { a: entry }, bid: {} }
    const key = segmentKey(0, 'ask', 'a', 1, prefix)
    await redis.set(headKey(0, prefix), 'head')
    expect(await store.publish(manifest, undefined, 'head'), 'without its segment').to.equal(undefined)
    await store.storeSegment('ask', 'a', 1, Buffer.from('abc'))
    expect(await redis.pttl(key), 'not yet published').to.be.within(1, REPLACED_SEGMENT_TTL_MS)
    expect(await store.publish(manifest, undefined, 'other'), 'under another head').to.equal(undefined)
    const unknown = { manifest, text: JSON.stringify(manifest) }
    expect(await store.publish(manifest, unknown, 'head'), 'over a manifest that is not there').to.equal(undefined)
    expect(await redis.exists(manifestKey(0, prefix))).to.equal(0)
    expect(await redis.pttl(key)).to.be.within(1, REPLACED_SEGMENT_TTL_MS)

    const known = (await store.publish(manifest, undefined, 'head')) ?? expect.fail('not published')
    expect(await redis.pttl(key)).to.equal(-1)
    const next = { ...manifest, next: 2, ask: {} }
    expect(await store.publish(next, undefined, 'head'), 'over a manifest that is not known').to.equal(undefined)
    expect(await redis.pttl(key)).to.equal(-1)
    expect(await store.publish(next, known, 'head')).to.deep.include({ manifest: next })
    expect(await redis.pttl(key)).to.be.within(1, REPLACED_SEGMENT_TTL_MS)
  })

  it('names no segment like one whose trace a failover has lost', async () => {
    // What used to happen: the counter fell back with the data, and other content came under the name that a stream had pinned.
    const table = { partition: 5, prefix: `${platform.namespace}lost.` }
    const store = openSnapshotStore(redis, table)
    const before = await store.nextVersion()
    await redis.del(versionsKey(table.partition, table.prefix))
    const now = async (): Promise<number> => Number((await redis.time())[0]) * 1_000
    await eventually(async () => (await now()) > before, 'the clock to go on')
    expect(await store.nextVersion()).to.be.above(before)
  })

  it('are built again after their manifest was lost', async () => {
    const { market, prefix } = await open()
    await market.flush(6, market.randomRecords(6, 30))
    await market.built()
    await redis.del(manifestKey(6, prefix))
    await market.flush(6, market.randomRecords(6, 1))
    await market.built()
    const manifest = (await market.manifest(6)) ?? expect.fail('no manifest')
    const last = market.moments[6]?.at(-1) ?? expect.fail('no moment')
    expect(sorted(await momentOf(manifest, 6, prefix))).to.deep.equal(sorted(last))
  })
})
