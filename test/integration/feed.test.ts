import { hash } from 'node:crypto'
import { expect } from 'chai'
import type { Codec } from '#infra/kafka/codec.ts'
import type { Outgoing, Publisher } from '#infra/kafka/publisher.ts'
import type { Redis } from '#infra/redis/redis.ts'
import { openStreamLeases } from '#infra/redis/stream-leases.ts'
import { HOUR_MS, MINUTE_MS } from '#schemas/values/instant.ts'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import { eventually } from '#test/harness/eventually.ts'
import { bookChangeRecord, changed, marked, markerRecords } from '#test/harness/published-records.ts'
import type { ExpectedChange } from '#test/harness/reference-fold.ts'
import { smallCatalog } from '#test/harness/small-catalog.ts'
import { openSse, type SseClient } from '#test/harness/sse-client.ts'
import type { StartedRoles } from '#test/harness/start-roles.ts'
import { useServers } from '#test/harness/use-servers.ts'

interface TokenReply {
  token: string
  expires_at: string
  code?: string
}

interface ChangedData {
  provider: string
  seen_at: string
  items: { item_id: number }[]
}

const dataOf = (client: SseClient): ChangedData[] =>
  client.events.filter(({ event }) => event !== 'ready').map(({ data }) => data as ChangedData)

/** A token opens a stream first within the one, and again within the other (DECISIONS.md, "Feeds"). */
const [FIRST_OPEN_MS, REOPEN_MS] = [5 * MINUTE_MS, 15 * MINUTE_MS]

describe('feed', () => {
  const platform = useServers()
  let gateways: StartedRoles[]
  let redis: Redis
  const clients: SseClient[] = []

  before(async () => {
    redis = await platform.openRedis()
    gateways = [await platform.startRoles(['feed']), await platform.startRoles(['feed'])]
    for (const gateway of gateways) await gateway.ready()
  })

  after(async () => {
    for (const client of clients) client.close()
  })

  const open = async (base: string, path: string, key?: string, headers: Record<string, string> = {}) => {
    const client = await openSse(base + path, key === undefined ? { headers } : { key, headers })
    clients.push(client)
    return client
  }
  const at = (index: number) => gateways[index]?.baseUrl ?? ''
  const askToken = async (key: string, base = at(0)) => {
    const answer = await fetch(`${base}/v1/feed/token`, { method: 'POST', headers: { authorization: `Bearer ${key}` } })
    return { status: answer.status, headers: answer.headers, body: (await answer.json()) as TokenReply }
  }

  describe('connections of a key', () => {
    it('are never more than the cap over all gateways, however many ask at once, and a lease is free as soon as one closes', async () => {
      const key = await platform.newKey()
      const asked = await Promise.all(Array.from({ length: 24 }, (_, i) => open(at(i % 2), '/feed/prices', key)))
      const [opened, refused] = [200, 429].map(status => asked.filter(client => client.status === status))
      expect([opened?.length, refused?.length]).to.deep.equal([2, 22])
      for (const client of refused ?? []) {
        expect(Number(client.headers['retry-after'])).to.be.at.least(1)
        expect(await client.body()).to.have.property('code', 'RATE_LIMIT_FEED_CONNECTIONS_EXCEEDED')
      }
      opened?.[0]?.close()
      await eventually(async () => (await open(at(1), '/feed/bids', key)).status === 200, 'a free lease')
    })

    it('that a killed gateway held count until they expire, and no longer', async () => {
      const { key, key_id } = await createAccountWithKey(platform.database, { tier: 'quant' })
      const gateway = await platform.spawnRole('feed', { PORT: '0' })
      const base = await gateway.baseUrl()
      for (const path of ['/feed/prices', '/feed/bids']) expect((await open(base, path, key)).status).to.equal(200)
      const places = `${platform.namespace}{feed:${key_id}}:places`
      const [one = '', , other = '', latest] = await redis.zrange(places, '0', '-1', 'WITHSCORES')
      const [seconds = 0] = await redis.time()
      expect(Number(latest) - seconds * 1_000, 'a lease has an end').to.be.at.most(13_000)
      gateway.kill('SIGKILL')
      await gateway.ended
      const expireAt = (time: number) => redis.multi().zadd(places, time, one, time, other).persist(places).exec()
      await expireAt(Date.now() + HOUR_MS)
      expect((await open(at(0), '/feed/prices', key)).status).to.equal(429)
      await expireAt(Date.now() - HOUR_MS)
      expect((await open(at(0), '/feed/prices', key)).status).to.equal(200)
    })

    it('stay counted for as long as they are open: leases are renewed, through the loss of the store too', async () => {
      const leases = openStreamLeases(redis, { prefix: platform.namespace, name: 'test', leaseMs: 60_000 })
      const lease = await leases.take('a', 1)
      const places = `${platform.namespace}{test:a}:places`
      const expiry = async () => Number((await redis.zrange(places, '0', '-1', 'WITHSCORES'))[1] ?? 0)
      const first = await expiry()
      await eventually(async () => (await expiry()) > first, 'a renewal')
      expect(await leases.take('a', 1)).to.equal(undefined)
      await redis.del(places)
      await eventually(async () => (await expiry()) > first, 'a renewal after the loss')
      expect(await leases.take('a', 1)).to.equal(undefined)
      lease?.release()
      lease?.release()
      await eventually(async () => (await leases.take('a', 1)) !== undefined, 'the released lease')
      await leases.close()
    })

    it('may be opened with a feed token, which has the rights of its key and ends with it', async () => {
      const key = await platform.newKey()
      const askedAt = Date.now()
      const { status, headers, body } = await askToken(key)
      expect([status, headers.get('cache-control'), headers.get('x-ratelimit-tier')]).to.deep.equal([
        200,
        'private, no-store',
        'quant',
      ])
      expect(Object.keys(body).sort()).to.deep.equal(['expires_at', 'token'])
      expect(Date.parse(body.expires_at) - FIRST_OPEN_MS).to.be.within(askedAt, Date.now())
      const client = await open(at(1), `/v1/feed/prices?providers=provider_01&token=${body.token}`)
      expect(client.status).to.equal(200)
      // It counts as a connection of its key.
      expect((await open(at(0), '/feed/bids', key)).status).to.equal(200)
      expect((await open(at(0), '/feed/bids', key)).status).to.equal(429)
      await platform.database.rows(
        "UPDATE api_keys SET revoked_at = now() WHERE hash = sha256(convert_to($1, 'UTF8'))",
        [key],
      )
      await eventually(() => client.hasEnded(), 'the end of the stream')
    })

    it('are one with a feed token, which opens it again after a break; a second one ends the first, at any gateway', async () => {
      const key = await platform.newKey()
      const { token } = (await askToken(key)).body
      const address = `/feed/prices?token=${token}`
      // An EventSource reconnects to the same address.
      for (const base of [at(0), at(0), at(1)]) {
        const client = await open(base, address)
        expect(client.status).to.equal(200)
        client.close()
      }
      const other = await open(at(0), '/feed/bids', key)
      let last = await open(at(0), address)
      for (const base of [at(0), at(1), at(0)]) {
        const next = await open(base, address)
        expect([next.status, other.status]).to.deep.equal([200, 200])
        await eventually(() => last.hasEnded(), 'the end of the first')
        expect(last.comments.at(-1)).to.equal('closed: another connection was opened with this token')
        // The key holds two: this one, counted once, and the other.
        expect((await open(at(1), '/feed/bids', key)).status).to.equal(429)
        expect([next.hasEnded(), other.hasEnded()]).to.deep.equal([false, false])
        last = next
      }
      last.close()
      await eventually(async () => (await open(at(1), '/feed/bids', key)).status === 200, 'a free lease')
    })

    it('are opened with a token for five minutes, and then for as long as its stream is alive and 15 minutes more', async () => {
      const { token } = (await askToken(await platform.newKey())).body
      const stored = `${platform.namespace}feed-token:${hash('sha256', token, 'hex')}`
      expect(await redis.pttl(stored)).to.be.within(1, FIRST_OPEN_MS)
      const client = await open(at(0), `/feed/prices?token=${token}`)
      await eventually(async () => (await redis.pttl(stored)) > REOPEN_MS - 60_000, 'the longer time')
      expect(await redis.pttl(stored)).to.be.at.most(REOPEN_MS)
      client.close()
      await redis.pexpire(stored, 0)
      expect((await open(at(0), `/feed/prices?token=${token}`)).status).to.equal(401)
    })

    it('are not opened with what is no token, and a token is given to no token', async () => {
      for (const token of ['', 'x', 'A'.repeat(43)]) {
        expect((await open(at(0), `/feed/prices?token=${token}`)).status, token).to.equal(401)
      }
      // What cannot be decoded is refused before any credential is looked for, as in the rest of the API.
      expect((await open(at(0), '/feed/prices?token=%zz')).status).to.equal(400)
      const { body } = await askToken(await platform.newKey())
      const stolen = await fetch(`${at(0)}/feed/token?token=${body.token}`, { method: 'POST' })
      expect(stolen.status).to.equal(401)
    })

    it('leave no token in the store or the log, and are sent away with times to come back', async () => {
      const gateway = await platform.spawnRole('feed', { PORT: '0' })
      const base = await gateway.baseUrl()
      const { body } = await askToken(await platform.newKey(), base)
      expect((await redis.keys('*')).join()).not.to.include(body.token)
      const opened = [await open(base, `/feed/prices?token=${body.token}`)]
      for (let count = 0; count < 7; count++) opened.push(await open(base, '/feed/prices', await platform.newKey()))
      await gateway.stop()
      await eventually(() => opened.every(client => client.hasEnded()), 'the end of all streams')
      for (const client of opened) expect(client.comments.at(-1)).to.equal('closed: the server is stopping')
      const times = opened.map(client => client.retryMs() ?? 0)
      for (const time of times) expect(time).to.be.within(500, 5_000)
      expect(new Set(times).size).to.be.above(1)
      expect(gateway.lines().join('\n')).to.include('stream opened').and.not.include(body.token)
    })
  })

  describe('to a subscriber', () => {
    const items = smallCatalog()
    let codec: Codec
    let publisher: Publisher
    before(async () => {
      const kafka = platform.connect()
      codec = kafka.codec
      publisher = await platform.openPublisher(kafka, 'book')
    })
    const listen = async (path: string) => {
      const client = await open(at(0), path, await platform.newKey())
      expect(client.status).to.equal(200)
      await client.event(({ event }) => event === 'ready')
      return client
    }
    /** A refresh as the book publishes it: its changes, then its marker in every partition. */
    const refreshOf = (changes: ExpectedChange[], members: Parameters<typeof marked>[0]): Outgoing[] => [
      ...changes.map(change => bookChangeRecord(codec, changed(change))),
      ...markerRecords(codec, marked(members)),
    ]

    it('delivers a refresh in one event, whatever partitions it is spread over', async () => {
      const client = await listen('/feed/prices')
      const some = items.slice(0, 40)
      const about = { provider: 'provider_01', refresh_id: 'one', seen_at: 1_772_573_670_549 }
      const changes = some.map(({ item_id }) =>
        changed({ ...about, item_id, price_micro_usd: item_id * 10_000 + 5_000 }),
      )
      await publisher.send(refreshOf(changes, { ...about, last_updated: about.seen_at }))
      await client.event(({ event }) => event === 'prices.changed')
      const [data, ...more] = dataOf(client)
      expect(more).to.deep.equal([])
      expect(data).to.deep.include({ provider: 'provider_01', seen_at: '2026-03-03T21:34:30.549Z' })
      const expected = some.map(({ item_id, market_hash_name, phase }) => {
        return { item_id, market_hash_name, phase, price: item_id + 1, qty: 1, change: 'added' }
      })
      expect(data?.items.sort((a, b) => a.item_id - b.item_id)).to.deep.equal(expected)
    })

    it('sends bids to the bids feed, to each filter what it names, and a pushed change without a marker', async () => {
      const phased = items.filter(({ phase }) => phase !== null)
      const [first, second] = phased.filter(one => one.market_hash_name === '★ Karambit | Doppler (Factory New)')
      const other = items.find(({ phase }) => phase === null)
      if (!first || !second || !other) throw new Error('the catalog has no phased finish')
      const name = encodeURIComponent(first.market_hash_name)
      const byName = await listen(`/feed/bids?market_hash_names=${name}`)
      const byId = await listen(`/v1/feed/bids?item_ids=${second.item_id}&item_ids=${other.item_id}`)
      const elsewhere = await listen('/feed/bids?providers=provider_03')
      const prices = await listen('/feed/prices')
      const about = { side: 'bid' as const, provider: 'provider_02', refresh_id: 'bids', seen_at: 2_000 }
      const changes = [first, second, other].map(({ item_id }) => changed({ ...about, item_id }))
      await publisher.send(refreshOf(changes, { ...about, last_updated: 2_000 }))
      for (const client of [byName, byId]) await client.event(({ event }) => event === 'bids.changed')
      const idsOf = (client: SseClient) =>
        dataOf(client)
          .flatMap(data => data.items.map(item => item.item_id))
          .sort()
      expect(idsOf(byName)).to.deep.equal([first.item_id, second.item_id].sort())
      expect(idsOf(byId)).to.deep.equal([second.item_id, other.item_id].sort())
      // Pushed, so without a marker.
      const later = { provider: 'provider_03', refresh_id: null, seen_at: 2_500 }
      await publisher.send((['bid', 'ask'] as const).map(side => bookChangeRecord(codec, changed({ ...later, side }))))
      await elsewhere.event(({ event }) => event === 'bids.changed')
      await prices.event(({ event }) => event === 'prices.changed')
      for (const client of [elsewhere, prices]) {
        expect(dataOf(client).map(({ provider }) => provider)).to.deep.equal(['provider_03'])
      }
    })

    it('resumes after the id of the header or of either parameter, of which the header wins, and after no other text', async () => {
      const path = '/feed/prices?resume=true&providers=provider_04'
      const publish = (seen_at: number) => {
        const about = { provider: 'provider_04', refresh_id: String(seen_at), seen_at }
        return publisher.send(refreshOf([changed(about)], { ...about, last_updated: seen_at }))
      }
      const first = await listen(path)
      const { id: early = '' } = await first.event(({ event }) => event === 'ready')
      await publish(5_000)
      const { id: late = '' } = await first.event(({ event }) => event === 'prices.changed')
      const changedId = `${early.startsWith('A') ? 'B' : 'A'}${early.slice(1)}`
      const from = (id: string) => ({ 'last-event-id': id })
      const [both, live] = [
        ['ready', 5_000, 6_000],
        ['ready', 6_000],
      ]
      const cases: [query: string, headers: Record<string, string>, events: unknown[]][] = [
        ['', from(early), both],
        [`&last_event_id=${early}`, {}, both],
        [`&lastEventId=${early}`, {}, both],
        [`&last_event_id=${early}`, from(late), live],
        [`&last_event_id=${early}`, from(''), both],
        ['&last_event_id=&lastEventId=', from(''), live],
        ['', from(changedId), ['ready', 'unknown', 6_000]],
        [`&last_event_id=${changedId}`, {}, ['ready', 'unknown', 6_000]],
      ]
      // What is missed is missed at the other gateway, too; that one may be a moment behind with what is live.
      const resumed = await Promise.all(
        cases.map(async ([query, headers, events]) =>
          open(at(events === both ? 1 : 0), path + query, await platform.newKey(), headers),
        ),
      )
      for (const client of resumed) await client.event(({ event }) => event === 'ready')
      await publish(6_000)
      const isLast = ({ event, data }: SseClient['events'][0]) =>
        event === 'prices.changed' && Date.parse((data as ChangedData).seen_at) === 6_000
      for (const [nth, client] of resumed.entries()) {
        await client.event(isLast)
        const events = client.events.map(({ event, data }) => {
          const { seen_at, reason } = data as Partial<ChangedData> & { reason?: string }
          return seen_at === undefined ? (reason ?? event) : Date.parse(seen_at)
        })
        expect(events, `case ${nth}`).to.deep.equal(cases[nth]?.[2])
      }
    })

    it('leaves out a record that it cannot read, counts it, and goes on', async () => {
      const client = await listen('/feed/prices?providers=provider_06')
      await publisher.send([{ topic: 'bookChanges', key: '1', partition: 0, value: Buffer.from('poison') }])
      const about = { provider: 'provider_06', refresh_id: 'after', seen_at: 4_000 }
      await publisher.send(refreshOf([changed(about)], { ...about, last_updated: 4_000 }))
      await client.event(({ event }) => event === 'prices.changed')
      expect(await gateways[0]?.metrics.registry.getSingleMetricAsString('feed_undecodable_total')).to.match(
        /_total 1$/m,
      )
      expect(gateways.flatMap(({ failures }) => failures)).to.deep.equal([])
    })
  })
})
