import { expect } from 'chai'
import { loadTiers, type Tier } from '#infra/config/tiers.ts'
import type { Redis } from '#infra/redis/redis.ts'
import { minuteKey, monthKey, openRequestMeter, type RequestMeter } from '#infra/redis/request-meter.ts'
import { errorReply } from '#schemas/api/error.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { hashOfKey } from '#services/accounts/access/reader.ts'
import { createAccountWithKey, newKeyText } from '#services/accounts/keys/commands.ts'
import { type ApiScenario, openApiScenario } from '#test/fixtures/api-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

const CLIENTS = 64
const LONGER_MS = 120_000

interface Reply {
  status: number
  code: string | undefined
  headers: Headers
}

interface Key {
  text: string
  id: string
}

describe('rate limits and quotas', () => {
  const platform = useServers()
  const tiers = loadTiers()
  let scenario: ApiScenario
  let roots: string[]

  before('two API processes on one market, of which the first trusts a proxy on loopback', async () => {
    scenario = await openApiScenario(platform, 5)
    const processes = [
      await platform.spawnRole('api', { TRUSTED_PROXIES: '127.0.0.0/8' }),
      await platform.spawnRole('api'),
    ]
    roots = await Promise.all(processes.map(one => one.baseUrl()))
  })
  after('end of the market', () => scenario.close())
  beforeEach('a month that does not end meanwhile', () =>
    eventually(
      () => new Date(Date.now() + LONGER_MS).getUTCMonth() === new Date().getUTCMonth(),
      'the next month',
      1.2 * LONGER_MS,
    ),
  )

  async function rootKey(tier: Tier): Promise<Key> {
    const made = await createAccountWithKey(scenario.database, { tier })
    return { text: made.key, id: made.key_id }
  }

  async function childKey(lowered: { quota?: number; rate?: number }): Promise<Key> {
    const root = await createAccountWithKey(scenario.database, { tier: 'quant' })
    const text = newKeyText('child')
    const [row] = await scenario.database.rows<{ id: string }>(
      `INSERT INTO api_keys (account_id, kind, root_key_id, hash, name,
         quota_requests_per_month_override, rate_requests_per_minute_override)
       VALUES ($1, 'child', $2, decode($3, 'hex'), 'one', $4, $5) RETURNING id`,
      [root.account_id, root.key_id, hashOfKey(text), lowered.quota ?? null, lowered.rate ?? null],
    )
    return { text, id: row?.id as string }
  }

  async function ask(key: Key | null, path = '/fx', root = 0, headers: Record<string, string> = {}): Promise<Reply> {
    const answer = await fetch((roots[root] as string) + path, {
      headers: { ...(key && { authorization: `Bearer ${key.text}` }), ...headers },
      redirect: 'manual',
    })
    const text = await answer.text()
    const code = answer.ok || text === '' ? undefined : errorReply.parse(JSON.parse(text)).code
    return { status: answer.status, code, headers: answer.headers }
  }

  /** `count` requests by 64 clients that never pause, on both processes in turn. */
  async function storm(key: Key | null, count: number, path?: string): Promise<Reply[]> {
    const replies: Reply[] = []
    let sent = 0
    const client = async () => {
      while (sent < count) {
        sent += 1
        replies.push(await ask(key, path, sent % roots.length))
      }
    }
    await Promise.all(Array.from({ length: CLIENTS }, client))
    return replies
  }

  const admitted = (replies: readonly Reply[]) => replies.filter(({ status }) => status === 200)
  const refused = (replies: readonly Reply[]) => replies.filter(({ status }) => status === 429)
  const thisMonth = () => new Date().toISOString().slice(0, 7)
  const monthCount = async (key: Key) =>
    Number(await scenario.redis.get(monthKey(key.id, thisMonth(), platform.namespace)))

  const leftOf = (headers: Headers, name: string): number =>
    Number(new RegExp(`"${name}";r=(\\d+);t=\\d+`).exec(headers.get('ratelimit') ?? '')?.[1])

  for (const [tier, count] of [
    ['quant', 420],
    ['free', 100],
  ] as const)
    it(`64 clients of one ${tier} key get its requests of a minute, and not one more or fewer`, async () => {
      const key = await rootKey(tier)
      const { requests_per_minute: perMinute, requests_per_month: perMonth } = tiers[tier]
      for (const window of [1, 2]) {
        const replies = await storm(key, count)
        expect(replies).to.have.length(count)
        expect(admitted(replies)).to.have.length(perMinute)
        expect(refused(replies)).to.have.length(count - perMinute)
        for (const { code, headers } of refused(replies)) {
          expect(code).to.equal('RATE_LIMIT_EXCEEDED')
          expect(Number(headers.get('retry-after'))).to.be.within(1, 60)
          expect(headers.get('ratelimit')).to.equal(`"minute";r=0;t=${headers.get('retry-after')}`)
        }
        const leftOfMinute = admitted(replies).map(({ headers }) => leftOf(headers, 'minute'))
        expect(leftOfMinute.sort((a, b) => b - a)).to.deep.equal(
          Array.from({ length: perMinute }, (_, i) => perMinute - 1 - i),
        )
        // Each admitted request took another of the month's, and the refused ones none.
        const left = admitted(replies).map(({ headers }) => Number(headers.get('x-ratelimit-remaining')))
        const highest = perMonth - (window - 1) * perMinute - 1
        expect(left.sort((a, b) => b - a)).to.deep.equal(Array.from({ length: perMinute }, (_, i) => highest - i))
        expect(await monthCount(key)).to.equal(window * perMinute)
        const life = await scenario.redis.pttl(minuteKey(key.id, platform.namespace))
        expect(life).to.be.within(1, 60_000)
        // As if its time were over; the next request begins a window of its own.
        await scenario.redis.pexpire(minuteKey(key.id, platform.namespace), 0)
      }
    })

  it('64 clients get the last requests of a month, and not one more or fewer', async () => {
    const key = await childKey({ quota: 77 })
    const now = new Date()
    const replies = await storm(key, 150)
    expect(admitted(replies)).to.have.length(77)
    const end = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1) / 1000
    for (const { code, headers } of refused(replies)) {
      expect(code).to.equal('RATE_LIMIT_MONTHLY_QUOTA_EXCEEDED')
      expect(headers.get('x-ratelimit-remaining')).to.equal('0')
      expect(headers.get('x-ratelimit-limit')).to.equal('77')
      expect(headers.get('ratelimit')).to.equal(`"month";r=0;t=${headers.get('retry-after')}`)
      expect(headers.get('ratelimit-policy')).to.match(/^"minute";q=300;w=60, "month";q=77;w=2\d{6}$/)
      expect(Number(headers.get('x-ratelimit-reset'))).to.equal(end)
      expect(Number(headers.get('retry-after'))).to.be.within(
        end - Date.now() / 1000,
        Math.ceil(end - now.getTime() / 1000),
      )
    }
    expect(refused(replies)).to.have.length(150 - 77)
    expect(await monthCount(key)).to.equal(77)
  })

  it('a child key is lowered by its own record and never raised', async () => {
    const lowered = await storm(await childKey({ rate: 7 }), 40)
    expect(admitted(lowered)).to.have.length(7)
    const raised = await storm(await childKey({ rate: 5_000, quota: 90_000_000 }), 320)
    expect(admitted(raised)).to.have.length(tiers.quant.requests_per_minute)
    expect(raised[0]?.headers.get('x-ratelimit-limit')).to.equal(String(tiers.quant.requests_per_month))
  })

  it('checks are made in order, and only what passes them counts', async () => {
    const key = await rootKey('free')
    const perMinute = tiers.free.requests_per_minute
    for (const path of ['/sales', '/bids', '/sales?limit=x'])
      expect((await ask(key, path)).code).to.equal('FORBIDDEN_TIER')
    expect(await monthCount(key)).to.equal(0)
    expect((await ask(key, '/prices?limit=x')).code).to.equal('VALIDATION_ERROR')
    expect((await ask(key, '/prices?item_id=999999999')).code).to.equal('ITEM_NOT_FOUND')
    expect(await monthCount(key)).to.equal(2)
    expect((await ask(key, '/nothing')).code).to.equal('NOT_FOUND')
    expect(await monthCount(key), 'a path that is none costs of the minute alone').to.equal(2)
    for (let i = 3; i < perMinute; i++) expect((await ask(key)).status).to.equal(200)
    expect((await ask(key, '/prices?limit=x')).code).to.equal('RATE_LIMIT_EXCEEDED')
    expect((await ask(key, '/nothing')).code).to.equal('RATE_LIMIT_EXCEEDED')
    expect((await ask(key, '/sales')).code).to.equal('FORBIDDEN_TIER')
  })

  it('every answer to a valid key reports its quota, and no other answer does', async () => {
    const key = await rootKey('pro')
    const names = ['limit', 'remaining', 'reset', 'tier'].map(name => `x-ratelimit-${name}`)
    const quotaOf = ({ headers }: Reply) => names.map(name => headers.get(name))
    const now = new Date()
    const reset = String(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1) / 1000)
    const limit = tiers.pro.requests_per_month
    const paths: [path: string, status: number, used: number][] = [
      ['/fx', 200, 1],
      ['/prices?limit=x', 422, 2],
      ['/market/nothing', 404, 2],
      ['/v1/prices?limit=2', 200, 3],
      ['/items?limit=1', 200, 4],
      ['/prices/batch', 405, 4],
    ]
    for (const [path, status, used] of paths) {
      const reply = await ask(key, path)
      expect([reply.status, ...quotaOf(reply)], path).to.deep.equal([
        status,
        String(limit),
        String(limit - used),
        reset,
        'pro',
      ])
      expect(leftOf(reply.headers, 'month'), path).to.equal(limit - used)
    }
    for (const path of ['/fx', '/nothing'])
      expect(quotaOf(await ask(null, path)), path).to.deep.equal(Array(4).fill(null))
  })

  it('an address gets 60 requests a minute without a valid key, of each kind by itself', async () => {
    const keys = await scenario.redis.keys(`${platform.namespace}address-*`)
    if (keys.length > 0) await scenario.redis.del(...keys)
    const unknown = { text: newKeyText('root'), id: '' }
    const kinds: [name: string, as: typeof unknown | null, paths: string[]][] = [
      ['no key', null, ['/fx', '/nothing']],
      ['an unknown key', unknown, ['/fx', '/nothing', '/openapi.json']],
      ['redirects', null, [`/r/provider_01/${scenario.items.full.item_id}`]],
      ['documents', null, ['/openapi.json', '/llms.txt']],
      ['sign-in', null, ['/account/login', '/account/callback', '/account/email/verify?token=x']],
    ]
    for (const [name, as, paths] of kinds) {
      const asked = await Promise.all(Array.from({ length: 90 }, (_, i) => ask(as, paths[i % paths.length], i % 2)))
      expect(refused(asked), name).to.have.length(30)
      for (const { code, headers } of refused(asked)) {
        expect(code).to.equal('RATE_LIMIT_EXCEEDED')
        expect(Number(headers.get('retry-after'))).to.be.within(1, 60)
        expect(headers.get('ratelimit')).to.equal(`"address";r=0;t=${headers.get('retry-after')}`)
      }
    }
    expect((await ask(await rootKey('free'))).status, 'a valid key does not count on its address').to.equal(200)
  })

  it('visitors behind a trusted proxy, who used to share one budget, have one each, from the right; others are not believed', async () => {
    const statusFor = async (root: number, from: string) =>
      (await ask(null, '/fx', root, { 'x-forwarded-for': from })).status
    for (const root of [0, 1]) {
      const visits: number[] = []
      for (let n = 0; n <= 60; n++) visits.push(await statusFor(root, '198.51.100.1'))
      expect(visits).to.include(429)
      expect(await statusFor(root, '198.51.100.2')).to.equal(root === 0 ? 401 : 429)
      // What a client writes itself is left of what the proxy adds, and gives it no other budget.
      expect(await statusFor(root, '203.0.113.9, 198.51.100.1')).to.equal(429)
    }
  })
})

describe('request meter', () => {
  const platform = useServers({ setUp: false })
  let redis: Redis
  let clock = 0
  let meter: RequestMeter
  before('a meter with a clock of its own', async () => {
    redis = await platform.openRedis()
    meter = openRequestMeter(redis, { prefix: platform.namespace, now: () => clock })
  })

  const limits = { perMinute: 100, perMonth: 5 }

  it('begins a new month in UTC and says when it ends', async () => {
    clock = Date.UTC(2096, 11, 31, 23, 59, 59, 999)
    for (let i = 0; i < 5; i++) await meter.take('a', limits, { countsInMonth: true })
    const over = await meter.take('a', limits, { countsInMonth: true })
    expect(over.minute.resetSeconds).to.be.within(1, 60)
    expect(over).to.deep.equal({
      refusedBy: 'month',
      minute: { quota: 100, windowSeconds: 60, remaining: 95, resetSeconds: over.minute.resetSeconds },
      month: { quota: 5, windowSeconds: 31 * 86_400, remaining: 0, resetSeconds: 1 },
      resetAt: Date.UTC(2097, 0, 1) / 1000,
    })
    clock += 1
    const next = await meter.take('a', limits, { countsInMonth: true })
    expect(next).to.deep.include({ refusedBy: undefined, resetAt: Date.UTC(2097, 1, 1) / 1000 })
    expect(next.month).to.deep.include({ remaining: 4, resetSeconds: 31 * 86_400 })
  })

  it('counts what is exempt from the quota in the minute alone, also when the month is used up', async () => {
    for (let i = 0; i < 6; i++) await meter.take('b', limits, { countsInMonth: true })
    const exempt = await Promise.all(
      Array.from({ length: 99 }, () => meter.take('b', limits, { countsInMonth: false })),
    )
    expect(exempt.filter(one => one.refusedBy === undefined)).to.have.length(95)
    expect(exempt.filter(one => one.refusedBy === 'minute')).to.have.length(4)
    const { refusedBy, minute, month } = await meter.read('b', limits)
    expect([refusedBy, minute.remaining, month.remaining]).to.deep.equal([undefined, 0, 0])
    expect((await meter.read('fresh', limits)).minute).to.deep.include({ remaining: 100, resetSeconds: 0 })
  })

  it('ends a minute a minute after its first request, however many follow', async () => {
    await meter.take('d', limits, { countsInMonth: false })
    await redis.pexpire(minuteKey('d', platform.namespace), 50_000)
    await meter.take('d', limits, { countsInMonth: false })
    expect(await redis.pttl(minuteKey('d', platform.namespace))).to.be.within(1, 50_000)
  })

  it('lets a counter of a month end some time after its month', async () => {
    clock = Date.now()
    await meter.take('c', limits, { countsInMonth: true })
    const life = await redis.pttl(monthKey('c', new Date(clock).toISOString().slice(0, 7), platform.namespace))
    const date = new Date(clock)
    const end = Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1) + DAY_MS
    expect(life).to.be.within(end - Date.now(), end - clock)
  })
})
