/**
 * Connections of a key over several gateways: the cap, what a crash leaves, feed tokens, and the end of a gateway.
 *
 * Two gateways in this process with a host each, and one as a process that is killed.
 */
import { expect } from 'chai'
import { openOneTimeTokens } from '#infra/redis/one-time-tokens.ts'
import type { Redis } from '#infra/redis/redis.ts'
import { openStreamLeases } from '#infra/redis/stream-leases.ts'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import { eventually } from '#test/harness/eventually.ts'
import { openSse, type SseClient } from '#test/harness/sse-client.ts'
import type { StartedRoles } from '#test/harness/start-roles.ts'
import { useServers } from '#test/harness/use-servers.ts'

interface TokenReply {
  token: string
  expires_at: string
  code?: string
}

describe('connections of a key', () => {
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

  const open = async (base: string, path: string, key?: string) => {
    const client = await openSse(base + path, key === undefined ? {} : { key })
    clients.push(client)
    return client
  }
  const at = (index: number) => gateways[index]?.baseUrl ?? ''
  const askToken = async (key: string, base = at(0)) => {
    const answer = await fetch(`${base}/v1/feed/token`, { method: 'POST', headers: { authorization: `Bearer ${key}` } })
    return { status: answer.status, headers: answer.headers, body: (await answer.json()) as TokenReply }
  }

  it('are counted over all gateways, and a lease is free as soon as one closes', async () => {
    const key = await platform.newKey()
    const first = await open(at(0), '/feed/prices', key)
    const second = await open(at(1), '/feed/bids', key)
    expect([first.status, second.status]).to.deep.equal([200, 200])
    for (const base of [at(0), at(1)]) {
      const third = await open(base, '/feed/prices', key)
      expect([third.status, Number(third.headers['retry-after']) >= 1]).to.deep.equal([429, true])
      expect(await third.body()).to.have.property('code', 'RATE_LIMIT_FEED_CONNECTIONS_EXCEEDED')
    }
    first.close()
    await eventually(async () => (await open(at(1), '/feed/prices', key)).status === 200, 'a free lease')
  })

  it('are never more than the cap, however many ask at once', async () => {
    const key = await platform.newKey()
    const asked = await Promise.all(Array.from({ length: 24 }, (_, i) => open(at(i % 2), '/feed/prices', key)))
    expect(asked.filter(({ status }) => status === 200)).to.have.length(2)
    expect(asked.filter(({ status }) => status === 429)).to.have.length(22)
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
    await expireAt(Date.now() + 3_600_000)
    expect((await open(at(0), '/feed/prices', key)).status).to.equal(429)
    await expireAt(Date.now() - 3_600_000)
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

  it('may be opened once with a feed token, which has the rights of its key and ends with it', async () => {
    const key = await platform.newKey()
    const askedAt = Date.now()
    const { status, headers, body } = await askToken(key)
    expect([status, headers.get('cache-control'), headers.get('x-ratelimit-tier')]).to.deep.equal([
      200,
      'private, no-store',
      'quant',
    ])
    expect(Object.keys(body).sort()).to.deep.equal(['expires_at', 'token'])
    expect(Date.parse(body.expires_at) - 300_000).to.be.within(askedAt, Date.now())
    const client = await open(at(1), `/v1/feed/prices?providers=provider_01&token=${body.token}`)
    expect(client.status).to.equal(200)
    const again = await open(at(0), `/feed/prices?token=${body.token}`)
    expect([again.status, ((await again.body()) as TokenReply).code]).to.deep.equal([401, 'AUTH_INVALID_API_KEY'])
    // It counts as a connection of its key.
    expect((await open(at(0), '/feed/bids', key)).status).to.equal(200)
    expect((await open(at(0), '/feed/bids', key)).status).to.equal(429)
    await platform.database.rows("UPDATE api_keys SET revoked_at = now() WHERE hash = sha256(convert_to($1, 'UTF8'))", [
      key,
    ])
    await eventually(() => client.hasEnded(), 'the end of the stream')
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

  it('are not opened with a token that has expired', async () => {
    const options = { prefix: platform.namespace, name: 'feed', ttlMs: 50, now: Date.now }
    const stored = async () => (await redis.keys(`${platform.namespace}feed-token:*`)).length
    const others = await stored()
    const { token } = await openOneTimeTokens(redis, options).issue('0'.repeat(64))
    await eventually(async () => (await stored()) === others, 'the expiry')
    expect((await open(at(0), `/feed/prices?token=${token}`)).status).to.equal(401)
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
