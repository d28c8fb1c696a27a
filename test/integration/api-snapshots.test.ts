import { expect } from 'chai'
import { bidEntry, priceEntry } from '#schemas/api/listing.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { headKey, manifestKey, segmentKey } from '#streams/live-view/table.ts'
import { CLIENTS, openSnapshotScenario, type SnapshotScenario } from '#test/fixtures/snapshot-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

const DAY_S = 86_400

/** How each client says that a body ended too early. */
const CUT: Record<string, RegExp> = { curl: /^18 /, python: /incomplete/, fetch: /terminated/ }

describe('bulk snapshots', () => {
  // Connections to Redis are killed here.
  const platform = useServers({ own: { redis: {} } })
  let scenario: SnapshotScenario

  before('a market behind the service', async () => {
    scenario = await openSnapshotScenario(platform)
    const { market } = scenario
    for (const partition of market.partitions) await market.flush(partition, market.randomRecords(partition, 120))
    await market.built()
  })
  after('end of the market', () => scenario.close())

  const plain = (body: string): string[] =>
    body === ''
      ? []
      : body
          .trimEnd()
          .split('\n')
          .map(line => JSON.stringify(JSON.parse(line)))

  const stream = async (path: string, key: string, headers: Record<string, string> = {}) => {
    const answer = await scenario.send(path, key, { headers })
    return { status: answer.status, headers: answer.headers, text: await answer.text() }
  }

  const remaining = (headers: Headers): number => Number(headers.get('x-ratelimit-remaining'))

  describe('hold', () => {
    it('the asks of the live table in the order of listings, each as GET /prices has it', async () => {
      const { market, keys } = scenario
      const { status, headers, text } = await stream('/v1/prices', keys.pro)
      expect(status).to.equal(200)
      expect(headers.get('content-type')).to.equal('application/x-ndjson')
      const lines = plain(text)
      expect(lines).to.deep.equal(market.lines('ask'))
      expect(lines.length).to.be.greaterThan(300)
      for (const line of lines) priceEntry.required().parse(JSON.parse(line))
      expect(headers.get('x-snapshot-total')).to.equal(String(lines.length))
      expect(headers.get('x-snapshot-currency')).to.equal('USD')
      const updated = lines.map(line => JSON.parse(line).last_updated).sort()
      expect(headers.get('x-snapshot-timestamp')).to.equal(updated.at(-1))
      expect(headers.get('x-request-id')).to.be.a('string')
      expect(headers.get('vary')).to.equal('Accept-Encoding')
      const { item_id } = JSON.parse(lines[0] ?? '{}')
      const listed = await scenario.send(`/v1/prices?item_id=${item_id}`, keys.quant, { method: 'GET' })
      const { items } = (await listed.json()) as { items: object[] }
      const ofItem = lines.filter(line => JSON.parse(line).item_id === item_id)
      expect(items.map(item => JSON.stringify(item))).to.deep.equal(ofItem)
    })

    it('the bids, for starter too and without the version', async () => {
      const { status, text } = await stream('/bids', scenario.keys.starter)
      expect(status).to.equal(200)
      const lines = plain(text)
      expect(lines).to.deep.equal(scenario.market.lines('bid'))
      for (const line of lines) bidEntry.parse(JSON.parse(line))
    })

    it('only the providers that were asked for', async () => {
      const { market, keys } = scenario
      const listing = [...new Set(market.lines('ask').map(line => JSON.parse(line).provider as string))].sort()
      for (const chosen of [listing.slice(0, 1), listing.slice(1, 4)]) {
        const query = chosen
          .map(key => `providers=${key}`)
          .reverse()
          .join('&')
        const { headers, text } = await stream(`/v1/prices?${query}`, keys.quant)
        expect(plain(text)).to.deep.equal(market.lines('ask', chosen))
        expect(headers.get('x-snapshot-total')).to.equal(String(plain(text).length))
      }
    })

    it('nothing, where providers list nothing', async () => {
      const { market, keys } = scenario
      const listing = new Set(market.lines('ask').map(line => JSON.parse(line).provider))
      const silent = market.providers.find(({ key }) => !listing.has(key))?.key
      for (const coding of ['gzip', 'identity']) {
        const { status, headers, text } = await stream(`/v1/prices?providers=${silent}`, keys.quant, {
          'accept-encoding': coding,
        })
        expect([status, text, headers.get('x-snapshot-total')]).to.deep.equal([200, '', '0'])
      }
    })

    for (const [name, client] of Object.entries(CLIENTS))
      it(`the same for ${name}, packed and plain`, async () => {
        const { market, keys, roles } = scenario
        for (const [path, side] of [
          ['/v1/prices', 'ask'],
          ['/v1/bids', 'bid'],
        ] as const) {
          const packed = await client(roles.baseUrl + path, keys.quant, 'gzip')
          const unpacked = await client(roles.baseUrl + path, keys.quant, 'identity')
          expect(packed).to.deep.equal(unpacked)
          expect(plain((packed as { body: string }).body)).to.deep.equal(market.lines(side))
        }
      })
  })

  it('have an ETag, which stays while nothing changes, differs by coding, and answers 304 without a start', async () => {
    const key = await platform.newKey('pro')
    const first = await stream('/v1/prices', key, { 'accept-encoding': 'gzip' })
    const etag = first.headers.get('etag') ?? expect.fail('no ETag')
    const other = await stream('/v1/prices', key, { 'accept-encoding': 'identity' })
    expect(other.headers.get('etag')).to.not.equal(etag)
    expect(remaining(other.headers)).to.equal(48)
    const known = { 'accept-encoding': 'gzip', 'if-none-match': `"x", W/${etag}` }
    for (let i = 0; i < 3; i++) {
      const same = await stream('/v1/prices', key, known)
      expect([same.status, same.text, same.headers.get('etag')]).to.deep.equal([304, '', etag])
      expect(remaining(same.headers)).to.equal(48)
    }
    const { market } = scenario
    await market.flush(0, market.randomRecords(0, 60))
    await market.built()
    const changed = await stream('/v1/prices', key, known)
    expect(changed.status).to.equal(200)
    expect(changed.headers.get('etag')).to.not.equal(etag)
    expect(plain(changed.text)).to.deep.equal(market.lines('ask'))
  })

  it('refuse providers that there are none of, and a client that takes neither coding', async () => {
    for (const path of ['/v1/prices?providers=provider_99', '/v1/bids?providers=provider_01'])
      expect((await stream(path, scenario.keys.pro)).status, path).to.equal(422)
    const neither = await stream('/v1/prices', scenario.keys.pro, { 'accept-encoding': '*;q=0' })
    expect(neither.status).to.equal(400)
  })

  it('count successful starts in 24 hours, for each key and endpoint by itself', async () => {
    const key = await platform.newKey('starter')
    const firstAfter = Date.now() / 1000
    let firstBefore = 0
    for (let start = 1; start <= 25; start++) {
      const { status, headers } = await stream('/v1/bids?providers=provider_02', key)
      firstBefore ||= Date.now() / 1000
      expect([status, headers.get('x-ratelimit-limit'), remaining(headers)]).to.deep.equal([200, '25', 25 - start])
      expect(headers.get('x-ratelimit-tier')).to.equal('starter')
      expect(headers.get('ratelimit')).to.match(
        new RegExp(`^"minute".*, "month".*, "stream-starts";r=${25 - start};t=\\d+$`),
      )
      // Neither counts.
      if (start % 10 === 1) {
        const faulty = await stream('/v1/bids?providers=x', key)
        expect([faulty.status, remaining(faulty.headers)]).to.deep.equal([422, 25 - start])
      }
    }
    const { status, headers, text } = await stream('/v1/bids', key)
    expect([status, JSON.parse(text).code]).to.deep.equal([429, 'RATE_LIMIT_STREAM_QUOTA_EXCEEDED'])
    expect(Number(headers.get('retry-after'))).to.be.within(firstAfter + DAY_S - Date.now() / 1000, DAY_S)
    expect(Number(headers.get('x-ratelimit-reset'))).to.be.within(firstAfter + DAY_S, firstBefore + DAY_S + 1)
    expect([headers.get('x-ratelimit-limit'), remaining(headers)]).to.deep.equal(['25', 0])
    expect(headers.get('ratelimit')).to.equal(`"stream-starts";r=0;t=${headers.get('retry-after')}`)
    expect(headers.get('ratelimit-policy')).to.include(', "stream-starts";q=25;w=86400')
    // The limit is checked before the parameters; a request that only asks whether there is news starts nothing.
    expect((await stream('/v1/bids?providers=x', key)).status).to.equal(429)
    const { headers: ofOther } = await stream('/v1/bids', scenario.keys.pro)
    const known = { 'if-none-match': ofOther.get('etag') ?? '' }
    expect((await stream('/v1/bids', key, known)).status).to.equal(304)
    // A reissued key used to begin with all of its starts.
    const reissued = await scenario.ask('/v1/account/key/reissue', { as: key, method: 'POST' })
    const again = await stream('/v1/bids', reissued.body.key)
    expect([again.status, remaining(again.headers)]).to.deep.equal([429, 0])
  })

  async function without<T>(key: string, work: () => Promise<T>): Promise<T> {
    const { redis } = scenario
    const [kept, ttl] = [await redis.dumpBuffer(key), await redis.pttl(key)]
    expect(await redis.del(key), key).to.equal(1)
    try {
      return await work()
    } finally {
      await redis.restore(key, Math.max(ttl, 0), kept ?? Buffer.alloc(0))
    }
  }

  /** The key of the first or last segment of all asks. */
  async function segmentAt(index: 0 | -1): Promise<string> {
    const { provider, item_id } = JSON.parse(scenario.market.lines('ask').at(index) ?? '{}')
    const partition = partitionOfItem(item_id)
    const entry = (await scenario.market.manifest(partition))?.ask[provider] ?? expect.fail('no segment')
    return segmentKey(partition, 'ask', provider, entry.version, platform.namespace)
  }

  const needed: [name: string, key: () => string | Promise<string>, paths: string[]][] = [
    ['a manifest', () => manifestKey(2, platform.namespace), ['/v1/prices', '/v1/bids']],
    ['a head', () => headKey(2, platform.namespace), ['/v1/prices', '/v1/bids']],
    ['its first segment', () => segmentAt(0), ['/v1/prices']],
  ]
  for (const [name, keyOf, paths] of needed)
    it(`are unavailable without ${name}, which counts nothing`, async () => {
      const key = await platform.newKey('quant')
      for (const path of paths) {
        const code = path === '/v1/bids' ? 'BIDS_INDEX_UNAVAILABLE' : 'PRICES_INDEX_UNAVAILABLE'
        const { status, text } = await without(await keyOf(), () => stream(path, key))
        expect([status, JSON.parse(text).code]).to.deep.equal([503, code])
        const { status: then, headers } = await stream(path, key)
        expect([then, remaining(headers)]).to.deep.equal([200, 299])
      }
    })

  for (const coding of ['gzip', 'identity'] as const)
    for (const [name, client] of Object.entries(CLIENTS))
      it(`that cannot be finished are seen to be cut by ${name}: ${coding}`, async () => {
        const key = await platform.newKey('quant')
        const url = `${scenario.roles.baseUrl}/v1/prices`
        const result = await without(await segmentAt(-1), () => client(url, key, coding))
        expect((result as { failure?: string }).failure).to.match(CUT[name] as RegExp)
        // Its slot is free, and the start counted.
        const { status, headers } = await stream('/v1/prices', key)
        expect([status, remaining(headers)]).to.deep.equal([200, 298])
      })

  describe('of some size', () => {
    before('two providers that list everything', async () => {
      const { market } = scenario
      // More than all buffers between the service and a client that reads nothing.
      await market.list(market.catalog, market.providers.slice(0, 2), 'x'.repeat(40_000))
      await market.built()
    })

    // A response that is collected as garbage hangs up.
    const held: Response[] = []
    after('end of what is held', () => held.splice(0))

    const hold = async (path: string, key: string) => {
      const leaving = new AbortController()
      const answer = await scenario.send(path, key, {
        signal: leaving.signal,
        headers: { 'accept-encoding': 'identity' },
      })
      expect(answer.status).to.equal(200)
      held.push(answer)
      return { answer, leave: () => leaving.abort() }
    }

    it('run one at a time for each key and endpoint, and free their slot when the client hangs up', async () => {
      const key = await platform.newKey('quant')
      const other = await scenario.startAnother()
      const { leave } = await hold('/v1/prices', key)
      for (const baseUrl of [scenario.roles.baseUrl, other.baseUrl]) {
        const second = await scenario.send('/v1/prices', key, { baseUrl })
        expect(second.status).to.equal(409)
        expect(((await second.json()) as { code: string }).code).to.equal('STREAM_ALREADY_ACTIVE')
        expect(Number(second.headers.get('retry-after'))).to.be.within(1, 15)
        expect(remaining(second.headers)).to.equal(299)
      }
      expect((await stream('/v1/bids', key)).status).to.equal(200)
      expect((await stream('/v1/prices?providers=provider_02', await platform.newKey('quant'))).status).to.equal(200)
      leave()
      const again = async (): Promise<boolean> => (await stream('/v1/prices?providers=provider_03', key)).status === 200
      await eventually(again, 'the slot to be free')
      await other.stop()
    })

    it('end in a broken connection when Redis is lost on the way', async () => {
      const { redis } = scenario
      const key = await platform.newKey('quant')
      const { answer } = await hold('/v1/prices', key)
      // The stream's own connection is the one that has no name.
      const clients = String(await redis.client('LIST')).split('\n')
      const nameless = clients.filter(line => / name= /.test(line) && /cmd=get/.test(line))
      expect(nameless.length).to.be.greaterThan(0)
      for (const line of nameless) await redis.client('KILL', 'ID', /id=(\d+)/.exec(line)?.[1] ?? '')
      const failure = await answer.text().then(
        () => undefined,
        error => error,
      )
      expect(failure).to.be.instanceOf(Error)
      expect((await stream('/v1/prices?providers=provider_03', key)).status).to.equal(200)
    })

    it('are whole after they were replaced', async () => {
      const { market } = scenario
      const lines = market.lines('ask')
      const key = await platform.newKey('quant')
      const { answer } = await hold('/v1/prices', key)
      for (let round = 0; round < 3; round++) {
        for (const partition of market.partitions) await market.flush(partition, market.randomRecords(partition, 20))
        await market.built()
      }
      expect(plain(await answer.text())).to.deep.equal(lines)
    })
  })
})
