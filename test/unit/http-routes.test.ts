/** Requests come over a pair of streams; there is no socket. */
import { createServer } from 'node:http'
import { expect } from 'chai'
import { z } from 'zod'
import { loadTiers, type Tier } from '#infra/config/tiers.ts'
import type { Credential } from '#infra/http/credential.ts'
import { defineRoute, perTier, type Route } from '#infra/http/define-route.ts'
import { openGuard } from '#infra/http/guard.ts'
import { HttpError } from '#infra/http/http-error.ts'
import { isNamed } from '#infra/http/reply.ts'
import { makeApp } from '#infra/http/serve-routes.ts'
import { PostgresUnavailable } from '#infra/postgres/pool.ts'
import { openLog } from '#infra/runtime/log.ts'
import { ALL, type Operation, QUANT } from '#schemas/api/operation.ts'
import { integer } from '#schemas/api/query-values.ts'
import { meteredKey } from '#test/fixtures/api-routes.ts'
import { answerOf, exchange } from '#test/harness/exchange.ts'

const ABOUT = {
  group: 'Catalog',
  summary: 'A route',
  description: 'Of a test.',
  errors: [],
} satisfies Partial<Operation>
const reply = { status: 200, description: 'An answer.', schema: z.strictObject({ got: z.unknown() }) } as const

describe('a served route', () => {
  /** What happened to a request, in its order. */
  let steps: string[]
  /** Of a key that is over its limit. */
  let waitSeconds: number | undefined
  let isLost: boolean
  /** Addresses that were charged, and in which budget. */
  let charged: string[]
  /** Of an address that is over its limit. */
  let addressWaits: number | undefined
  beforeEach(() => {
    ;[steps, charged, isLost] = [[], [], false]
    waitSeconds = addressWaits = undefined
  })

  const tiers = loadTiers()
  const routes: Route[] = [
    defineRoute({
      ...ABOUT,
      id: 'list',
      method: 'get',
      path: '/list',
      tiers: ALL,
      query: perTier(tiers, limits => z.object({ limit: integer({ min: 1, max: limits.list_page_max }).default(1) })),
      reply,
      uncountedCode: 'PRICES_INDEX_UNAVAILABLE',
      handle: ({ query, credential }) => ({ got: [query.limit, credential.tier] }),
    }),
    defineRoute({
      ...ABOUT,
      id: 'change',
      method: 'post',
      path: '/things/:id',
      tiers: QUANT,
      access: 'management',
      params: z.object({ id: integer({ min: 1 }) }),
      body: z.strictObject({ name: z.string() }),
      reply,
      admit() {
        steps.push('admitted')
        return { release: () => void steps.push('released') }
      },
      async handle({ params, body, lease }) {
        steps.push('handled')
        if (body.name === 'taken') throw new HttpError('WEBHOOK_PAUSED', 'It is taken.')
        if (body.name === 'lost') throw new PostgresUnavailable('it is lost')
        if (body.name === 'wrong') throw new Error('a bug')
        return { got: [params.id, body.name, typeof lease.release] }
      },
    }),
    defineRoute({
      ...ABOUT,
      id: 'drop',
      method: 'delete',
      path: '/things/:id',
      tiers: ALL,
      reply: { status: 204, description: 'It is gone.' },
      handle: () => undefined,
    }),
  ]
  const metered = () => {
    if (isLost) throw new Error('the store is lost')
    return waitSeconds === undefined ? meteredKey() : meteredKey('minute', waitSeconds)
  }
  const guard = openGuard({
    async authenticate({ headers: { authorization } }, _access, countFirst) {
      const isToken = authorization?.endsWith(' token')
      const giveBack = isToken ? await countFirst() : undefined
      if (isToken) steps.push('checked')
      const [tier = '', kind] = authorization?.slice('Bearer '.length).split(' ') ?? []
      const refusal = { accepted: false, code: 'AUTH_INVALID_API_KEY', detail: 'unknown' } as const
      if (!(tier in tiers)) return isToken ? { ...refusal, isCounted: true } : refusal
      giveBack?.()
      const credential = { kind: 'key', keyId: tier, tier: tier as Tier, isRootKey: kind !== 'child' } as Credential
      return { accepted: true, credential }
    },
    meter: { take: async () => metered(), read: async () => metered() },
    addresses: {
      perMinute: 60,
      async charge(address, budget) {
        charged.push(`${address} ${budget}`)
        return addressWaits
      },
      giveBack: async (address, budget) => void charged.push(`${address} ${budget} back`),
    },
    clientOf: ({ headers }) => String(headers['x-client']),
    tiers,
    noteUse: keyId => void steps.push(`noted ${keyId}`),
    noteRefused: address => void steps.push(`refused ${address}`),
  })
  const log = openLog({ level: 'silent', name: 'test' })

  async function ask(request: string, key?: string, body?: string) {
    const head = [
      `${request} HTTP/1.1`,
      'Host: t',
      'Connection: close',
      ...(key ? [`Authorization: Bearer ${key}`] : []),
    ]
    if (body !== undefined) head.push('Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`)
    const server = createServer(makeApp(routes, guard, { log, observe: () => undefined }))
    const text = await exchange(server, Buffer.from(`${head.join('\r\n')}\r\n\r\n${body ?? ''}`))
    const { status, headers, text: content } = answerOf(text)
    return { status, headers, body: content === '' ? undefined : JSON.parse(content) }
  }
  const outcomeOf = async (...asked: Parameters<typeof ask>) => {
    const { status, body } = await ask(...asked)
    return [status, body?.code ?? body?.got]
  }

  it('checks credential, tier, kind of key, limits, path and body, in this order', async () => {
    const wrong = ['POST /things/x', '{'] as const
    expect(await outcomeOf(wrong[0], undefined, wrong[1])).to.deep.equal([401, 'AUTH_INVALID_API_KEY'])
    waitSeconds = 7
    expect(await outcomeOf(wrong[0], 'free', wrong[1])).to.deep.equal([403, 'FORBIDDEN_TIER'])
    expect(await outcomeOf(wrong[0], 'quant child', wrong[1])).to.deep.equal([403, 'FORBIDDEN_CHILD_KEY'])
    expect(await outcomeOf(wrong[0], 'quant', wrong[1])).to.deep.equal([429, 'RATE_LIMIT_EXCEEDED'])
    expect(steps).not.to.include('admitted')
    waitSeconds = undefined
    expect(await outcomeOf(wrong[0], 'quant', wrong[1])).to.deep.equal([400, 'BAD_REQUEST'])
    const { body } = await ask(wrong[0], 'quant', '{}')
    expect(body.detail.map(({ loc }: { loc: string[] }) => loc[0])).to.deep.equal(['path'])
    expect(await outcomeOf('POST /things/5', 'quant', '{"name":1}')).to.deep.equal([422, 'VALIDATION_ERROR'])
    expect(await outcomeOf('POST /things/5', 'quant', '{"name":"a"}')).to.deep.equal([200, [5, 'a', 'function']])
  })

  it('releases what a request holds when it fails, and leaves it to a handler that answers', async () => {
    for (const body of ['{', '{"name":1}', '{"name":"taken"}']) {
      steps = []
      await ask('POST /things/5', 'quant', body)
      expect(steps.at(-1), body).to.equal('released')
    }
    steps = []
    await ask('POST /things/5', 'quant', '{"name":"a"}')
    expect(steps).to.deep.equal(['noted quant', 'admitted', 'handled'])
  })

  it('answers a lost Postgres as unavailable, whatever the route, and a bug as one', async () => {
    expect(await outcomeOf('POST /things/5', 'quant', '{"name":"lost"}')).to.deep.equal([503, 'SERVICE_UNAVAILABLE'])
    expect(await outcomeOf('POST /things/5', 'quant', '{"name":"wrong"}')).to.deep.equal([500, 'INTERNAL_ERROR'])
  })

  it('shows the limit that a key exceeds, and lets nothing pass uncounted', async () => {
    waitSeconds = 7
    const { headers } = await ask('GET /list', 'pro')
    const refusal = ['ratelimit-policy', 'ratelimit', 'retry-after'].map(name => headers.get(name))
    expect(refusal).to.deep.equal(['"minute";q=300;w=60, "month";q=1000;w=2592000', '"minute";r=0;t=7', '7'])
    isLost = true
    expect(await outcomeOf('GET /list', 'pro')).to.deep.equal([503, 'PRICES_INDEX_UNAVAILABLE'])
    expect(await outcomeOf('DELETE /things/1', 'pro')).to.deep.equal([503, 'SERVICE_UNAVAILABLE'])
  })

  it('counts what is costly to check on its address first, once, and takes a good one back', async () => {
    const asked = 'GET /list HTTP/1.1\r\nX-Client: 203.0.113.9\r\nX-Rest:'
    expect(await outcomeOf(asked, 'nobody token')).to.deep.equal([401, 'AUTH_INVALID_API_KEY'])
    expect([steps, charged]).to.deep.equal([['checked', 'refused 203.0.113.9'], ['203.0.113.9 credentials']])
    charged = []
    expect(await outcomeOf(asked, 'pro token')).to.deep.equal([200, [1, 'pro']])
    expect(charged).to.deep.equal(['203.0.113.9 credentials', '203.0.113.9 credentials back'])
    addressWaits = 9
    steps = []
    for (const key of ['nobody token', 'pro token']) {
      expect(await outcomeOf(asked, key)).to.deep.equal([429, 'RATE_LIMIT_EXCEEDED'])
    }
    expect(steps, 'nothing is checked').to.deep.equal([])
  })
})

describe('If-None-Match', () => {
  const naming = ['"a"', 'W/"a"', '"b", "a"', '"b",W/"a"', '*']
  const others = [undefined, '', '"b"', 'a', '"aa"', '"b, \\"a"']
  it('names an entity tag, weakly compared, in any place, or all by a star', () => {
    for (const header of naming) expect(isNamed('"a"', header), header).to.equal(true)
    for (const header of others) expect(isNamed('"a"', header), header).to.equal(false)
  })
})
